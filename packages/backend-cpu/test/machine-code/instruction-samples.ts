import type { Assembler } from '../../src/emit/x64/assembler.ts';
import {
  at,
  indexed,
  mask,
  r10,
  r12,
  r13,
  r15,
  r8,
  r9,
  rax,
  rbp,
  rbx,
  rcx,
  rdi,
  rdx,
  rsi,
  rsp,
  tmm,
  xmm,
  ymm,
  zmm,
} from '../../src/emit/x64/operands.ts';

/** Maps the text that binutils must disassemble, in Intel's syntax, to the calls that write the instruction. */
export const instructionSamples: Readonly<Record<string, (code: Assembler) => void>> = {
  'mov rax,r15': (code) => code.mov(rax, r15),
  'mov r12,0xffffffffffffffff': (code) => code.mov(r12, -1),
  'mov rbx,0x12345678': (code) => code.mov(rbx, 0x12345678),
  'mov r9,QWORD PTR [rbp+0x0]': (code) => code.mov(r9, at(rbp)),
  'mov rcx,QWORD PTR [r13+0x0]': (code) => code.mov(rcx, at(r13)),
  'mov rcx,QWORD PTR [rsp+0x8]': (code) => code.mov(rcx, at(rsp, 8)),
  'mov rcx,QWORD PTR [r12]': (code) => code.mov(rcx, at(r12)),
  'mov rdx,QWORD PTR [rsi+r9*8-0x80]': (code) => code.mov(rdx, indexed(rsi, r9, 8, -128)),
  'mov rdx,QWORD PTR [rsi+rax*1+0x80]': (code) => code.mov(rdx, indexed(rsi, rax, 1, 128)),
  'mov QWORD PTR [rdi+0x1000],r8': (code) => code.store(at(rdi, 0x1000), r8),
  'mov DWORD PTR [rdi+0x4],ecx': (code) => code.store32(at(rdi, 4), rcx),
  'mov DWORD PTR [r8],r9d': (code) => code.store32(at(r8), r9),
  'lea rax,[rdi+rsi*2]': (code) => code.lea(rax, indexed(rdi, rsi, 2)),
  'lea r10,[r12+r13*4+0x7]': (code) => code.lea(r10, indexed(r12, r13, 4, 7)),
  'add rax,rbx': (code) => code.add(rax, rbx),
  'add r8,0x7f': (code) => code.add(r8, 127),
  'add r8,0x80': (code) => code.add(r8, 128),
  'add rdx,QWORD PTR [rbx+0x10]': (code) => code.add(rdx, at(rbx, 16)),
  'sub rsp,0x88': (code) => code.sub(rsp, 0x88),
  'sub rcx,r10': (code) => code.sub(rcx, r10),
  'and rdx,0xffffffffffffffc0': (code) => code.and(rdx, -64),
  'xor r9,r9': (code) => code.xor(r9, r9),
  'cmp rax,0x10': (code) => code.cmp(rax, 16),
  'cmp rax,QWORD PTR [rsp]': (code) => code.cmp(rax, at(rsp)),
  'imul r8,rcx': (code) => code.imul(r8, rcx),
  'imul rdx,QWORD PTR [rbx+0x8]': (code) => code.imul(rdx, at(rbx, 8)),
  'shl r9,0x4': (code) => code.shl(r9, 4),
  'shr rax,0x3': (code) => code.shr(rax, 3),
  'bzhi rax,r9,rcx': (code) => code.bzhi(rax, r9, rcx),
  'bzhi r8,rax,r10': (code) => code.bzhi(r8, rax, r10),
  'push rbx': (code) => code.push(rbx),
  'push r15': (code) => code.push(r15),
  'pop rbp': (code) => code.pop(rbp),
  'pop r12': (code) => code.pop(r12),
  'call rax': (code) => code.call(rax),
  'call r9': (code) => code.call(r9),
  ret: (code) => code.ret(),
  'lock xadd QWORD PTR [rbx+0x100],rax': (code) => code.lockXadd(at(rbx, 256), rax),
  pause: (code) => code.pause(),
  syscall: (code) => code.syscall(),
  cpuid: (code) => code.cpuid(),
  xgetbv: (code) => code.xgetbv(),
  vzeroupper: (code) => code.vzeroupper(),
  'prefetcht0 BYTE PTR [rdi+0x40]': (code) => code.prefetch(at(rdi, 64)),
  'prefetcht0 BYTE PTR [r8+rcx*1]': (code) => code.prefetch(indexed(r8, rcx)),
  'jmp 0x0': (code) => code.jump(code.place(code.label())),
  'je 0x0': (code) => code.jumpIf('equal', code.place(code.label())),
  'jne 0x0': (code) => code.jumpIf('notEqual', code.place(code.label())),
  'jl 0x0': (code) => code.jumpIf('less', code.place(code.label())),
  'jge 0x0': (code) => code.jumpIf('notLess', code.place(code.label())),
  'jg 0x0': (code) => code.jumpIf('greater', code.place(code.label())),
  'call 0x0': (code) => code.call(code.place(code.label())),
  'lea r9,[rip+0xfffffffffffffff9]': (code) => code.addressOf(r9, code.place(code.label())),
  'kmovd k1,eax': (code) => code.kmovd(mask(1), rax),
  'kmovd k7,r9d': (code) => code.kmovd(mask(7), r9),
  'kshiftrd k2,k1,0x10': (code) => code.kshiftrd(mask(2), mask(1), 16),
  'kortestw k1,k1': (code) => code.kortestw(mask(1)),
  'vfpclassps k1,zmm21,0x20': (code) => code.vfpclassps(mask(1), zmm(21), 32),
  'vmovups ymm3,YMMWORD PTR [rdi+0x20]': (code) => code.binary('vmovups', ymm(3), at(rdi, 32)),
  'vmovups ymm12,YMMWORD PTR [r9+r10*4]': (code) =>
    code.binary('vmovups', ymm(12), indexed(r9, r10, 4)),
  'vmovups YMMWORD PTR [rsi],ymm9': (code) => code.vstore('vmovups', at(rsi), ymm(9)),
  'vbroadcastss ymm1,DWORD PTR [rax+0x4]': (code) =>
    code.binary('vbroadcastss', ymm(1), at(rax, 4)),
  'vfmadd231ps ymm0,ymm13,ymm15': (code) => code.ternary('vfmadd231ps', ymm(0), ymm(13), ymm(15)),
  'vaddps ymm8,ymm1,YMMWORD PTR [r8]': (code) => code.ternary('vaddps', ymm(8), ymm(1), at(r8)),
  'vxorps ymm2,ymm2,ymm2': (code) => code.ternary('vxorps', ymm(2), ymm(2), ymm(2)),
  'vmovups zmm31,ZMMWORD PTR [rdi+0x40]': (code) => code.binary('vmovups', zmm(31), at(rdi, 64)),
  'vmovups zmm5,ZMMWORD PTR [rdi+0x41]': (code) => code.binary('vmovups', zmm(5), at(rdi, 65)),
  'vmovups zmm5,ZMMWORD PTR [rdi+0x2000]': (code) => code.binary('vmovups', zmm(5), at(rdi, 8192)),
  'vmovups zmm9{k1}{z},ZMMWORD PTR [r13+0x0]': (code) =>
    code.binary('vmovups', zmm(9), at(r13), { mask: mask(1), zero: true }),
  'vmovups ZMMWORD PTR [rdx+rcx*1+0x40]{k2},zmm17': (code) =>
    code.vstore('vmovups', indexed(rdx, rcx, 1, 64), zmm(17), { mask: mask(2) }),
  'vmovdqu16 zmm4{k3}{z},ZMMWORD PTR [r8]': (code) =>
    code.binary('vmovdqu16', zmm(4), at(r8), { mask: mask(3), zero: true }),
  'vmovdqu16 YMMWORD PTR [rdi+0x20]{k1},ymm16': (code) =>
    code.vstore('vmovdqu16', at(rdi, 32), ymm(16), { mask: mask(1) }),
  'vbroadcastss zmm30,DWORD PTR [rsi+0x34]': (code) =>
    code.binary('vbroadcastss', zmm(30), at(rsi, 52)),
  'vpbroadcastd zmm29,DWORD PTR [rsi-0x200]': (code) =>
    code.binary('vpbroadcastd', zmm(29), at(rsi, -512)),
  'vfmadd231ps zmm0,zmm30,zmm31': (code) => code.ternary('vfmadd231ps', zmm(0), zmm(30), zmm(31)),
  'vfmadd231ps zmm20,zmm1,DWORD BCST [rsi+0x38]': (code) =>
    code.ternary('vfmadd231ps', zmm(20), zmm(1), at(rsi, 56), { broadcast: true }),
  'vmulps zmm3,zmm4,DWORD BCST [rbx+0x8]': (code) =>
    code.ternary('vmulps', zmm(3), zmm(4), at(rbx, 8), { broadcast: true }),
  'vaddps zmm3{k1}{z},zmm4,ZMMWORD PTR [r10+0x40]': (code) =>
    code.ternary('vaddps', zmm(3), zmm(4), at(r10, 64), { mask: mask(1), zero: true }),
  'vunpcklps zmm16,zmm17,zmm18': (code) => code.ternary('vunpcklps', zmm(16), zmm(17), zmm(18)),
  'vunpckhps zmm1,zmm2,zmm3': (code) => code.ternary('vunpckhps', zmm(1), zmm(2), zmm(3)),
  'vunpcklpd zmm1,zmm22,zmm3': (code) => code.ternary('vunpcklpd', zmm(1), zmm(22), zmm(3)),
  'vunpckhpd zmm1,zmm2,zmm23': (code) => code.ternary('vunpckhpd', zmm(1), zmm(2), zmm(23)),
  'vpxord zmm27,zmm27,zmm27': (code) => code.ternary('vpxord', zmm(27), zmm(27), zmm(27)),
  'vpord zmm1,zmm2,zmm3': (code) => code.ternary('vpord', zmm(1), zmm(2), zmm(3)),
  'vdpbf16ps zmm28,zmm1,zmm29': (code) => code.ternary('vdpbf16ps', zmm(28), zmm(1), zmm(29)),
  'vdpbf16ps zmm8,zmm1,DWORD BCST [rsi+0x4]': (code) =>
    code.ternary('vdpbf16ps', zmm(8), zmm(1), at(rsi, 4), { broadcast: true }),
  'vcvtne2ps2bf16 zmm1,zmm2,zmm31': (code) =>
    code.ternary('vcvtne2ps2bf16', zmm(1), zmm(2), zmm(31)),
  'vcvtneps2bf16 ymm3,zmm19': (code) => code.binary('vcvtneps2bf16', ymm(3), zmm(19)),
  'vpmovzxwd zmm7,ymm21': (code) => code.binary('vpmovzxwd', zmm(7), ymm(21)),
  'vpmovzxwd zmm7{k1}{z},YMMWORD PTR [rdi+0x20]': (code) =>
    code.binary('vpmovzxwd', zmm(7), at(rdi, 32), { mask: mask(1), zero: true }),
  'vshuff32x4 zmm1,zmm18,zmm3,0x88': (code) =>
    code.ternaryWith('vshuff32x4', zmm(1), zmm(18), zmm(3), 0x88),
  'vsubps zmm3,zmm4,DWORD BCST [rbx+0x8]': (code) =>
    code.ternary('vsubps', zmm(3), zmm(4), at(rbx, 8), { broadcast: true }),
  'vdivps zmm21,zmm4,ZMMWORD PTR [rsp+0x1c0]': (code) =>
    code.ternary('vdivps', zmm(21), zmm(4), at(rsp, 448)),
  'vminps zmm1,zmm2,zmm3': (code) => code.ternary('vminps', zmm(1), zmm(2), zmm(3)),
  'vmaxps zmm1{k7},zmm2,zmm3': (code) =>
    code.ternary('vmaxps', zmm(1), zmm(2), zmm(3), { mask: mask(7) }),
  'vpaddd zmm9,zmm22,zmm3': (code) => code.ternary('vpaddd', zmm(9), zmm(22), zmm(3)),
  'vpsubd zmm9,zmm22,zmm3': (code) => code.ternary('vpsubd', zmm(9), zmm(22), zmm(3)),
  'vpmulld zmm9,zmm22,zmm3': (code) => code.ternary('vpmulld', zmm(9), zmm(22), zmm(3)),
  'vpminsd zmm9,zmm22,zmm3': (code) => code.ternary('vpminsd', zmm(9), zmm(22), zmm(3)),
  'vpmaxsd zmm9,zmm22,zmm3': (code) => code.ternary('vpmaxsd', zmm(9), zmm(22), zmm(3)),
  'vpandd zmm9,zmm22,DWORD BCST [rbx]': (code) =>
    code.ternary('vpandd', zmm(9), zmm(22), at(rbx), { broadcast: true }),
  'vpandnd zmm9,zmm22,zmm3': (code) => code.ternary('vpandnd', zmm(9), zmm(22), zmm(3)),
  'vpmovzxbd zmm7{k1}{z},XMMWORD PTR [rdi+0x20]': (code) =>
    code.binary('vpmovzxbd', zmm(7), at(rdi, 32), { mask: mask(1), zero: true }),
  'vsqrtps zmm7,zmm8': (code) => code.binary('vsqrtps', zmm(7), zmm(8)),
  'vcvtdq2ps zmm7,zmm18': (code) => code.binary('vcvtdq2ps', zmm(7), zmm(18)),
  'vcvttps2dq zmm7{k2}{z},zmm18': (code) =>
    code.binary('vcvttps2dq', zmm(7), zmm(18), { mask: mask(2), zero: true }),
  'vpabsd zmm7,zmm18': (code) => code.binary('vpabsd', zmm(7), zmm(18)),
  'vmovntps ZMMWORD PTR [rdi+rcx*4+0x40],zmm30': (code) =>
    code.vstore('vmovntps', indexed(rdi, rcx, 4, 64), zmm(30)),
  'vpmovdw YMMWORD PTR [rdi+rcx*2+0x20]{k7},zmm30': (code) =>
    code.vstore('vpmovdw', indexed(rdi, rcx, 2, 32), zmm(30), { mask: mask(7) }),
  'vpmovdb XMMWORD PTR [rdi+rcx*1+0x30],zmm3': (code) =>
    code.vstore('vpmovdb', indexed(rdi, rcx, 1, 48), zmm(3)),
  'vpternlogd zmm20,zmm1,zmm3,0xca': (code) =>
    code.ternaryWith('vpternlogd', zmm(20), zmm(1), zmm(3), 0xca),
  'vcmpltps k1,zmm18,DWORD BCST [rbx+0x4]': (code) =>
    code.ternaryWith('vcmpps', mask(1), zmm(18), at(rbx, 4), 1, { broadcast: true }),
  'vpcmpled k2,zmm18,zmm3': (code) => code.ternaryWith('vpcmpd', mask(2), zmm(18), zmm(3), 2),
  'vrndscaleps zmm1,zmm20,0x9': (code) => code.binaryWith('vrndscaleps', zmm(1), zmm(20), 9),
  'vpermilps zmm1,zmm20,0x4e': (code) => code.binaryWith('vpermilps', zmm(1), zmm(20), 0x4e),
  'vpsrld zmm20,zmm21,0x10': (code) => code.shift('vpsrld', zmm(20), zmm(21), 16),
  'vpsrad zmm2,zmm21,0x17': (code) => code.shift('vpsrad', zmm(2), zmm(21), 23),
  'vpmovm2d zmm17,k3': (code) => code.vpmovm2d(zmm(17), mask(3)),
  'vpbroadcastd zmm17,eax': (code) => code.vpbroadcastd(zmm(17), rax),
  'vpbroadcastd zmm1,r9d': (code) => code.vpbroadcastd(zmm(1), r9),
  'vandps ymm1,ymm2,YMMWORD PTR [rax+0x20]': (code) =>
    code.ternary('vandps', ymm(1), ymm(2), at(rax, 32)),
  'vorps ymm9,ymm2,ymm13': (code) => code.ternary('vorps', ymm(9), ymm(2), ymm(13)),
  'vpaddd ymm9,ymm2,ymm13': (code) => code.ternary('vpaddd', ymm(9), ymm(2), ymm(13)),
  'vpcmpgtd ymm9,ymm2,YMMWORD PTR [r9]': (code) => code.ternary('vpcmpgtd', ymm(9), ymm(2), at(r9)),
  'vandnps ymm9,ymm2,ymm13': (code) => code.ternary('vandnps', ymm(9), ymm(2), ymm(13)),
  'vpcmpeqd ymm9,ymm2,YMMWORD PTR [rbx+0x40]': (code) =>
    code.ternary('vpcmpeqd', ymm(9), ymm(2), at(rbx, 64)),
  'vpsubd ymm9,ymm2,ymm13': (code) => code.ternary('vpsubd', ymm(9), ymm(2), ymm(13)),
  'vpmulld ymm9,ymm2,ymm13': (code) => code.ternary('vpmulld', ymm(9), ymm(2), ymm(13)),
  'vpminsd ymm9,ymm2,ymm13': (code) => code.ternary('vpminsd', ymm(9), ymm(2), ymm(13)),
  'vpmaxsd ymm9,ymm2,ymm13': (code) => code.ternary('vpmaxsd', ymm(9), ymm(2), ymm(13)),
  'vpabsd ymm7,ymm8': (code) => code.binary('vpabsd', ymm(7), ymm(8)),
  'vpmovzxbd ymm7,QWORD PTR [rdi+rcx*1+0x8]': (code) =>
    code.binary('vpmovzxbd', ymm(7), indexed(rdi, rcx, 1, 8)),
  'vcmpunordps ymm3,ymm12,ymm5': (code) => code.ternaryWith('vcmpps', ymm(3), ymm(12), ymm(5), 3),
  'vcmplt_oqps ymm3,ymm12,YMMWORD PTR [rbx+0x20]': (code) =>
    code.ternaryWith('vcmpps', ymm(3), ymm(12), at(rbx, 32), 17),
  'vroundps ymm1,ymm12,0x9': (code) => code.binaryWith('vrndscaleps', ymm(1), ymm(12), 9),
  'vpackuswb ymm9,ymm2,ymm13': (code) => code.ternary('vpackuswb', ymm(9), ymm(2), ymm(13)),
  'mov BYTE PTR [rsp+rax*1+0x40],dl': (code) => code.store8(indexed(rsp, rax, 1, 64), rdx),
  'mov BYTE PTR [r13+rax*1+0x0],sil': (code) => code.store8(indexed(r13, rax), rsi),
  'movzx rdx,BYTE PTR [r13+rax*1+0x0]': (code) => code.load8(rdx, indexed(r13, rax)),
  'vpackusdw ymm9,ymm2,ymm13': (code) => code.ternary('vpackusdw', ymm(9), ymm(2), ymm(13)),
  'vmaskmovps ymm3,ymm15,YMMWORD PTR [rdi+rcx*1+0x20]': (code) =>
    code.ternary('vmaskmovps', ymm(3), ymm(15), indexed(rdi, rcx, 1, 32)),
  'vpmaskmovd xmm8,xmm12,XMMWORD PTR [r10]': (code) =>
    code.ternary('vpmaskmovd', xmm(8), xmm(12), at(r10)),
  'vmaskmovps YMMWORD PTR [rdi+0x20],ymm15,ymm3': (code) =>
    code.maskedStore('vmaskmovps', at(rdi, 32), ymm(15), ymm(3)),
  'vpmaskmovd YMMWORD PTR [r9],ymm1,ymm11': (code) =>
    code.maskedStore('vpmaskmovd', at(r9), ymm(1), ymm(11)),
  'vinsertf128 ymm9,ymm9,XMMWORD PTR [r9+rax*2],0x1': (code) =>
    code.ternaryWith('vinsertf128', ymm(9), ymm(9), indexed(r9, rax, 2), 1),
  'vperm2f128 ymm1,ymm12,ymm3,0x31': (code) =>
    code.ternaryWith('vperm2f128', ymm(1), ymm(12), ymm(3), 0x31),
  'vblendvps ymm1,ymm2,ymm13,ymm4': (code) =>
    code.ternaryWith('vblendvps', ymm(1), ymm(2), ymm(13), 16 * 4),
  'vpblendvb xmm1,xmm2,xmm13,xmm14': (code) =>
    code.ternaryWith('vpblendvb', xmm(1), xmm(2), xmm(13), 16 * 14),
  'vinserti64x4 zmm1,zmm20,ymm3,0x1': (code) =>
    code.ternaryWith('vinserti64x4', zmm(1), zmm(20), ymm(3), 1),
  'vpermq ymm1,ymm12,0xd8': (code) => code.binaryWith('vpermq', ymm(1), ymm(12), 0xd8),
  'vextractf128 xmm1,ymm12,0x1': (code) => code.vextractf128(xmm(1), ymm(12), 1),
  'vpmovdw ymm1,zmm20': (code) => code.vpmovdw(ymm(1), zmm(20)),
  'vmovlps QWORD PTR [rdi+0x10],xmm9': (code) => code.vstore('vmovlps', at(rdi, 16), xmm(9)),
  'vpbroadcastw ymm13,WORD PTR [rsi+rbx*1]': (code) =>
    code.binary('vpbroadcastw', ymm(13), indexed(rsi, rbx)),
  'vpmovzxwd ymm9,xmm3': (code) => code.binary('vpmovzxwd', ymm(9), xmm(3)),
  'vpmovzxwd ymm7,XMMWORD PTR [r13+0x10]': (code) => code.binary('vpmovzxwd', ymm(7), at(r13, 16)),
  'vpslld ymm10,ymm3,0x10': (code) => code.shift('vpslld', ymm(10), ymm(3), 16),
  'mov WORD PTR [rdi+rcx*1],ax': (code) => code.store16(indexed(rdi, rcx), rax),
  'mov WORD PTR [r9+0x2],r10w': (code) => code.store16(at(r9, 2), r10),
  'movzx rax,WORD PTR [rsp+rcx*1-0x40]': (code) => code.load16(rax, indexed(rsp, rcx, 1, -64)),
  'ldmxcsr DWORD PTR [rsp-0x8]': (code) => code.ldmxcsr(at(rsp, -8)),
  'stmxcsr DWORD PTR [rsp-0x10]': (code) => code.stmxcsr(at(rsp, -16)),
  'ldtilecfg [rsp+0x40]': (code) => code.ldtilecfg(at(rsp, 64)),
  tilerelease: (code) => code.tilerelease(),
  'tilezero tmm3': (code) => code.tilezero(tmm(3)),
  'tileloadd tmm6,[r10+rax*1]': (code) => code.tileloadd(tmm(6), indexed(r10, rax)),
  'tileloadd tmm7,[rdx+r8*1+0x40]': (code) => code.tileloadd(tmm(7), indexed(rdx, r8, 1, 64)),
  'tilestored [rsp+r8*1+0x840],tmm2': (code) => code.tilestored(indexed(rsp, r8, 1, 0x840), tmm(2)),
  'tdpbf16ps tmm3,tmm5,tmm7': (code) => code.tdpbf16ps(tmm(3), tmm(5), tmm(7)),
  'vpslld zmm20,zmm21,0x10': (code) => code.shift('vpslld', zmm(20), zmm(21), 16),
};
