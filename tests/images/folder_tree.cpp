// Each entry of a folder is an image, ignored, or bad.

#include "images/folder_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(path.filename().string());
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("each entry of a folder is an image, ignored, or bad", "[data]") {
  const TemporaryDirectory folder;
  const fs::path here = folder.path();
  for (const char* name : {".DS_Store", "._a.png", "Thumbs.db", "readme.TXT", "LICENSE", "a.xml",
                           "__MACOSX/a.png", ".ipynb_checkpoints/a.png"})
    folder.write(name, "anything");
  for (const char* name : {"a.PNG", "b.jfif", "c.heic"}) folder.write(name, "anything");
  folder.write("d", png_of(some_planes(1, 2, 2)));  // recognized by its content
  folder.write("labels.csv", "a");
  folder.write("e", "no image");
  folder.write("f.dat", "");
  fs::create_symlink("nowhere.png", here / "g.png");
  fs::create_symlink("h.png", here / "h.png");  // a link to itself
  fs::create_symlink("nowhere.txt", here / "i.txt");
  REQUIRE(::mkfifo((here / "j.png").c_str(), 0600) == 0);
  const FolderTree tree = read_folder_tree(here);
  REQUIRE(names_in(tree.images) == Names{"a.PNG", "b.jfif", "c.heic", "d"});
  REQUIRE(names_in(tree.tables) == Names{"labels.csv"});
  REQUIRE(names_in(tree.ignored) == Names{".DS_Store", "._a.png", ".ipynb_checkpoints", "LICENSE",
                                          "Thumbs.db", "__MACOSX", "a.xml", "i.txt", "readme.TXT"});
  Names bad;
  for (const BadFile& each : tree.bad) bad.push_back(each.path.filename().string());
  REQUIRE(bad == Names{"e", "f.dat", "g.png", "h.png", "j.png"});
  REQUIRE_THAT(tree.bad[0].reason, ContainsSubstring("it is no image, and of no kind"));
  REQUIRE_THAT(tree.bad[2].reason, ContainsSubstring("a link to nothing"));
  REQUIRE_THAT(tree.bad[3].reason, ContainsSubstring("symbolic links"));
  REQUIRE_THAT(tree.bad[4].reason, ContainsSubstring("neither a file nor a folder"));
  REQUIRE(tree.folders.empty());
  REQUIRE_THAT(read_folder_tree(here / "missing").bad.at(0).reason,
               ContainsSubstring("cannot be listed: No such file"));
}

TEST_CASE("links to folders are followed, but not in circles", "[data]") {
  const TemporaryDirectory folder, elsewhere;
  elsewhere.write("deep/a.png", "");
  folder.write("cat/b.png", "");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "cat/linked");
  fs::create_directory_symlink("..", folder.path() / "cat/up");
  fs::create_directory_symlink(".", folder.path() / "self");
  fs::create_directory_symlink(folder.path(), elsewhere.path() / "back");
  const FolderTree tree = read_folder_tree(folder.path());
  REQUIRE(names_in(images_below(tree)) == Names{"b.png", "a.png"});
  REQUIRE(names_in(tree.ignored) == Names{"self"});
}

TEST_CASE("a folder that cannot be listed is bad", "[data]") {
  const TemporaryDirectory folder;
  fs::permissions(folder.path(), fs::perms::all);
  folder.write("cat/a.png", "");
  fs::permissions(folder.path() / "cat", fs::perms::none);
  const uid_t user = ::geteuid();
  if (user == 0) REQUIRE(::seteuid(65534) == 0);  // root may read everything
  const FolderTree tree = read_folder_tree(folder.path());
  REQUIRE(::seteuid(user) == 0);
  REQUIRE(tree.folders.size() == 1);
  REQUIRE_THAT(tree.folders[0].bad.at(0).describe(),
               ContainsSubstring("cat: it cannot be listed: Permission denied"));
  fs::permissions(folder.path() / "cat", fs::perms::all);
}

}  // namespace accrue::test
