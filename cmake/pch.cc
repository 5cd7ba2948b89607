// Holds the precompiled header that the other targets reuse; it defines nothing.
