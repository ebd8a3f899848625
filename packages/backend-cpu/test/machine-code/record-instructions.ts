/**
 * Lets binutils disassemble the machine code that the CPU backend's assemblers write. Records the bytes of each
 * instruction that is read as intended. Needs objdump and aarch64-linux-gnu-objdump.
 *
 * node --conditions=@shardwise/source packages/backend-cpu/test/machine-code/record-instructions.ts
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ArmAssembler } from '../../src/emit/arm64/assembler.ts';
import { Assembler } from '../../src/emit/x64/assembler.ts';
import { armInstructionSamples } from './arm-instruction-samples.ts';
import { instructionSamples } from './instruction-samples.ts';
import { writtenSamples } from './written-samples.ts';

const folder = mkdtempSync(join(tmpdir(), 'instructions-'));

function disassembled(hex: string, objdump: string, format: readonly string[]): string {
  const file = join(folder, 'code');
  writeFileSync(file, Buffer.from(hex, 'hex'));
  const options = ['-D', '-b', 'binary', ...format, '--no-show-raw-insn'];
  const text = execFileSync(objdump, [...options, '-w', file], { encoding: 'utf8' });
  const lines = text.split('\n').filter((line) => /^\s+[0-9a-f]+:/u.test(line));
  return lines
    .map((line) => line.replace(/^\s+[0-9a-f]+:\s+/u, '').replace(/\s*(?:#|\/\/) .*$/u, ''))
    .map((line) => line.trim().replaceAll(/\s+/gu, ' '))
    .join('; ');
}

function record(
  name: string,
  written: Readonly<Record<string, string>>,
  objdump: string,
  format: readonly string[],
): void {
  let isRead = true;
  for (const [meant, hex] of Object.entries(written)) {
    const read = disassembled(hex, objdump, format);
    if (read === meant) continue;
    console.error(`meant ${meant}, but objdump reads ${read} in ${hex}`);
    isRead = false;
    process.exitCode = 1;
  }
  const target = new URL(`../golden/${name}.json`, import.meta.url);
  if (isRead) writeFileSync(target, `${JSON.stringify(written, null, 2)}\n`);
}

try {
  const x86 = writtenSamples(() => new Assembler(), instructionSamples);
  record('instructions', x86, 'objdump', ['-m', 'i386:x86-64', '-M', 'intel']);
  const arm = writtenSamples(() => new ArmAssembler(), armInstructionSamples);
  record('arm-instructions', arm, 'aarch64-linux-gnu-objdump', ['-m', 'aarch64']);
} finally {
  rmSync(folder, { recursive: true });
}
