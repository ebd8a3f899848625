/**
 * Has binutils read the machine code that the CPU backend's assembler writes, and keeps the bytes of each
 * instruction that it reads as it was meant. Needs objdump.
 *
 *     node --conditions=@shardwise/source packages/backend-cpu/test/machine-code/record-instructions.ts
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Assembler } from '../../src/machine-code/assembler.ts';
import { instructionSamples } from './instruction-samples.ts';

const folder = mkdtempSync(join(tmpdir(), 'instructions-'));

function disassembled(bytes: Uint8Array): string {
  const file = join(folder, 'code');
  writeFileSync(file, bytes);
  const format = ['-D', '-b', 'binary', '-m', 'i386:x86-64', '-M', 'intel', '--no-show-raw-insn'];
  const text = execFileSync('objdump', [...format, '-w', file], { encoding: 'utf8' });
  const lines = text.split('\n').filter((line) => /^\s+[0-9a-f]+:/u.test(line));
  return lines
    .map((line) => line.replace(/^\s+[0-9a-f]+:\s+/u, '').replace(/\s*#.*$/u, ''))
    .map((line) => line.trim().replaceAll(/\s+/gu, ' '))
    .join('; ');
}

const golden: Record<string, string> = {};
try {
  for (const [meant, write] of Object.entries(instructionSamples)) {
    const code = new Assembler();
    write(code);
    const bytes = code.finish();
    const read = disassembled(bytes);
    if (read !== meant) {
      console.error(
        `meant ${meant}, but objdump reads ${read} in ${Buffer.from(bytes).toString('hex')}`,
      );
      process.exitCode = 1;
    }
    golden[meant] = Buffer.from(bytes).toString('hex');
  }
} finally {
  rmSync(folder, { recursive: true });
}
const target = new URL('../golden/instructions.json', import.meta.url);
if (process.exitCode === undefined) writeFileSync(target, `${JSON.stringify(golden, null, 2)}\n`);
