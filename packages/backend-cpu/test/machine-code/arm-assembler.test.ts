import { describe, expect, it } from 'vitest';
import golden from '../golden/arm-instructions.json' with { type: 'json' };
import { ArmAssembler } from '../../src/emit/arm64/assembler.ts';
import { stack, v, x } from '../../src/emit/arm64/operands.ts';
import { armInstructionSamples } from './arm-instruction-samples.ts';
import { writtenSamples } from './written-samples.ts';

describe('the assembler of AArch64', () => {
  it('writes the bytes in which binutils reads each instruction as it was meant', () => {
    expect(writtenSamples(() => new ArmAssembler(), armInstructionSamples)).toEqual(golden);
  });

  it('jumps forwards and backwards by words', () => {
    const code = new ArmAssembler();
    const end = code.label();
    const start = code.place();
    code.jumpIf('less', end);
    code.jumpUnlessBit(x(1), 2, start);
    code.jump(start);
    code.place(end);
    code.jumpIfZero(x(3), end);
    const words = new Uint32Array(code.finish().buffer);
    // b.lt 0xc; tbz w1, #2, 0x0; b 0x0; cbz x3, 0xc
    expect([...words]).toEqual([0x5400_006b, 0x3617_ffe1, 0x17ff_fffe, 0xb400_0003]);
  });

  it('refuses what has no encoding', () => {
    const code = new ArmAssembler();
    for (const write of [
      () => code.mov(x(0), 0x1_0000),
      () => code.mov(x(0), -1),
      () => code.mov(x(0), stack),
      () => code.add(x(0), x(1), 4096),
      () => code.add(x(0), stack, x(1)),
      () => code.subs(stack, stack, 1),
      () => code.move('ldr q', v(0), x(1), 8),
      () => code.move('ldr x', x(0), x(1), 32_768),
      () => code.moveAndStep('ldr x', x(0), x(1), 256),
      () => code.movePair('ldp q', v(0), v(1), x(1), 1024),
      () => code.fmlaByElement(v(0), v(1), v(2), 4),
    ]) {
      expect(write).toThrow(RangeError);
    }
    expect(code.finish()).toHaveLength(0);
    const lost = new ArmAssembler();
    lost.jump(lost.label());
    expect(() => lost.finish()).toThrow(RangeError);
    const far = new ArmAssembler();
    const start = far.place();
    for (let word = 0; word < 2 ** 13; word++) far.ret();
    far.jumpUnlessBit(x(0), 0, start);
    expect(() => far.finish()).not.toThrow();
    far.jumpUnlessBit(x(0), 0, start);
    expect(() => far.finish()).toThrow(RangeError);
  });
});
