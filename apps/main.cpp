#include <exception>
#include <new>

#include "apps/cli/messages.h"
#include "apps/cli/processor.h"
#include "apps/program.h"

int main(int argc, char** argv) {
  using namespace accrue::app;
  int status = 1;
  try {
    become_program_for_processor(argc, argv);
    begin_messages();
    status = run_program(argc, argv);
  } catch (const std::bad_alloc&) {
    say_error("accrue: error: the machine has no more memory\n");
  } catch (const std::exception& error) {
    say_error("accrue: error: {}\n", error.what());
  }
  return end_messages(status);
}
