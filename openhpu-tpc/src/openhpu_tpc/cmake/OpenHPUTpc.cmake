# openhpu_tpc_library(TARGET KERNELS a.c b.c GLUE glue.cpp [DESCRIPTIONS kernels.toml] [OPTIONS -D X=1])
#
# Adds a target that builds lib<TARGET>.so in the current binary folder, for GC_KERNEL_PATH. The folder of this file is
# what `openhpu tpc paths` prints behind `cmake`.
find_program(OPENHPU_COMMAND openhpu REQUIRED)

function(openhpu_tpc_library target)
  cmake_parse_arguments(TPC "" "" "KERNELS;GLUE;DESCRIPTIONS;OPTIONS" ${ARGN})
  if(NOT TPC_KERNELS AND NOT TPC_DESCRIPTIONS)
    message(FATAL_ERROR "openhpu_tpc_library(${target}): give KERNELS or DESCRIPTIONS")
  endif()
  set(library "${CMAKE_CURRENT_BINARY_DIR}/lib${target}.so")
  add_custom_command(
    OUTPUT "${library}"
    COMMAND "${OPENHPU_COMMAND}" tpc build ${TPC_KERNELS} ${TPC_GLUE} ${TPC_DESCRIPTIONS} -o "${library}" ${TPC_OPTIONS}
    DEPENDS ${TPC_KERNELS} ${TPC_GLUE} ${TPC_DESCRIPTIONS}
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    VERBATIM)
  add_custom_target(${target} ALL DEPENDS "${library}")
endfunction()
