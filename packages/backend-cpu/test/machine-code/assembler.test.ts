import { describe, expect, it } from 'vitest';
import golden from '../golden/instructions.json' with { type: 'json' };
import { Assembler } from '../../src/emit/x64/assembler.ts';
import { at, indexed, rax, rsp } from '../../src/emit/x64/operands.ts';
import { instructionSamples } from './instruction-samples.ts';
import { writtenSamples } from './written-samples.ts';

describe('the assembler of x86-64', () => {
  it('writes the bytes in which binutils reads each instruction as it was meant', () => {
    expect(writtenSamples(() => new Assembler(), instructionSamples)).toEqual(golden);
  });

  it('writes the same instruction in the same bytes, wherever a jump over it goes', () => {
    const code = new Assembler();
    const end = code.label();
    code.jumpIf('less', end);
    code.ret();
    code.place(end);
    expect(Buffer.from(code.finish()).toString('hex')).toBe('0f8c01000000c3');
  });

  it('refuses what has no encoding', () => {
    expect(() => new Assembler().lea(rax, indexed(rax, rsp))).toThrow(RangeError);
    expect(() => new Assembler().mov(rax, 2 ** 31)).toThrow(RangeError);
    expect(() => new Assembler().mov(rax, at(rax, 2 ** 31))).toThrow(RangeError);
    const lost = new Assembler();
    lost.jump(lost.label());
    expect(() => lost.finish()).toThrow(RangeError);
  });
});
