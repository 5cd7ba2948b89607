# Whole messages of 4 MiB and more: as released.
rt_test(unit_view SOURCES view_status_test.cc DEPS rt_head_view)
