/* SPDX-License-Identifier: MIT */
/* A Cortex-A of QEMU's machine "virt", at EL1, from reset: floating point on, memory as memory, the stack; main. */
    .section .text.start, "ax"
    .globl _start
_start:
    ldr x0, =stack_top
    mov sp, x0
    mov x0, #(3 << 20)      /* CPACR_EL1.FPEN: no trap on FP and SIMD */
    msr cpacr_el1, x0
    isb

    /* Without an MMU all memory is device memory, where a vector must lie on a multiple of its size. So: addresses as
     * they are, the first GiB (peripherals) device memory, the second (RAM) ordinary. */
    mov x0, #0xff           /* attribute 0: write-back; attribute 1: device */
    msr mair_el1, x0
    ldr x0, =(25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32) /* 39 bits of address, 4 KiB granule, one table */
    msr tcr_el1, x0
    ldr x0, =table
    msr ttbr0_el1, x0
    dsb sy
    isb
    mrs x0, sctlr_el1
    mov x1, #(1 << 0 | 1 << 2) /* MMU, data cache */
    orr x0, x0, x1
    orr x0, x0, #(1 << 12)  /* instruction cache */
    msr sctlr_el1, x0
    isb

    ldr x0, =bss_begin
    ldr x1, =bss_end
1:  cmp x0, x1
    b.hs 2f
    stp xzr, xzr, [x0], #16
    b 1b

2:  bl main
    mov w2, w0
    ldr x1, =leave          /* SYS_EXIT: why (an ordinary end), and the exit code */
    str x2, [x1, #8]
    mov w0, #0x18
    hlt #0xf000             /* semihosting: the debugger's, or QEMU's, to answer */
3:  b 3b

    .globl print
print:                      /* x0: a text that ends in 0 */
    mov x1, x0
    mov w0, #0x04           /* SYS_WRITE0 */
    hlt #0xf000
    ret

    .section .rodata
    .balign 4096
table:                      /* of level 1: 1 GiB an entry; block, accessed, attribute, shareable */
    .quad 0x00000000 | 1 << 10 | 1 << 2 | 1
    .quad 0x40000000 | 1 << 10 | 3 << 8 | 1
    .fill 510, 8, 0

    .data
    .balign 8
leave:
    .quad 0x20026, 0
