rt_test(unit_cas
    SOURCES cas_digest_test.cc cas_ignore_test.cc cas_manifest_test.cc cas_pack_test.cc
        cas_read_ahead_test.cc cas_tensors_test.cc cas_tree_test.cc cas_unpack_test.cc
    DEPS rt_cas rt_run SANITIZE address)
