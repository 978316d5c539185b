// The header compiles as C++, and the library links.
#include <millstream.h>

int main()
{
    return ms_abi_version() >> 16 == MS_ABI_MAJOR ? 0 : 1;
}
