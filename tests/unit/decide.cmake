rt_test(unit_decide SOURCES asha_test.cc asha_promotion_test.cc hyperband_test.cc median_test.cc pb2_test.cc pbt_test.cc rank_check_test.cc reallocation_test.cc DEPS rt_algorithms SANITIZE address)
