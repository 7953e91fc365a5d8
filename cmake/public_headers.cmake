# find_public_headers(RESULT ROOT MORE...): sets RESULT to the public headers, relative to ROOT: the
# headers in accrue/, MORE, and all headers that these include. Other headers are for accrue's own
# sources, and their declarations may depend on the flags that these are compiled with.
function(find_public_headers result root)
  file(GLOB found RELATIVE ${root} ${root}/accrue/*.h)
  list(APPEND found ${ARGN})
  set(unread ${found})
  while(unread)
    list(POP_FRONT unread header)
    file(STRINGS ${root}/${header} included REGEX "^ *#include \"")
    list(TRANSFORM included REPLACE ".*\"([^\"]+)\".*" "\\1")
    list(REMOVE_ITEM included ${found})
    list(APPEND found ${included})
    list(APPEND unread ${included})
  endwhile()
  list(SORT found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()
