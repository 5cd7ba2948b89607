rt_test(unit_autoscale SOURCES autoscale_planner_test.cc DEPS rt_head_autoscale SANITIZE address)
