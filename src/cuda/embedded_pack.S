// The kernel pack as bytes of the library.
    .section .rodata
    .global tilewright_kernel_pack_begin
    .global tilewright_kernel_pack_end
    .hidden tilewright_kernel_pack_begin
    .hidden tilewright_kernel_pack_end
    .balign 64
tilewright_kernel_pack_begin:
    .incbin TILEWRIGHT_PACK_FILE
tilewright_kernel_pack_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
