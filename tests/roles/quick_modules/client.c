/* Stands where a simulated machine's Python is expected: has server.py run what comes on standard
   input, or the script of that path with its arguments, in a fork of it. With options, or where no
   server answers, it is the real Python.
   usage: client, with SERVER and PYTHON defined at compilation */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;
static char block[65536];
static size_t length;

static void add(const char *text) {
    size_t size = strlen(text) + 1;
    if (length + size > sizeof block) _exit(126);
    memcpy(block + length, text, size);
    length += size;
}

int main(int argc, char **argv) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SERVER};
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), options = argc > 1 && *argv[1] != '/';
    if (options || connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
        execv(PYTHON, argv);
        return 127;
    }
    /* The folder, the number of arguments, each of them, each variable, all ended by a zero; then
       the three streams. */
    char number[16];
    if (!getcwd(block, sizeof block)) strcpy(block, "/");
    length = strlen(block) + 1;
    snprintf(number, sizeof number, "%d", argc - 1);
    add(number);
    for (char **each = argv + 1; *each; each++) add(*each);
    for (char **each = environ; *each; each++) add(*each);
    uint32_t announced = length;
    union { struct cmsghdr header; char room[CMSG_SPACE(3 * sizeof(int))]; } control = {0};
    struct iovec data = {&announced, sizeof announced};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr *files = CMSG_FIRSTHDR(&message);
    files->cmsg_level = SOL_SOCKET;
    files->cmsg_type = SCM_RIGHTS;
    files->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(files), (int[]){0, 1, 2}, 3 * sizeof(int));
    if (sendmsg(server, &message, 0) != sizeof announced) return 126;
    for (size_t sent = 0; sent < length;) {
        ssize_t more = write(server, block + sent, length - sent);
        if (more <= 0) return 126;
        sent += more;
    }
    unsigned char code;
    return read(server, &code, 1) == 1 ? code : 126;
}
