from ._command import module_main

module_main()
