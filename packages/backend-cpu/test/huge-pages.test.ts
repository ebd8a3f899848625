import { existsSync, readFileSync } from 'node:fs';
import koffi from 'koffi';
import { describe, expect, it } from 'vitest';
import { cpu } from '../src/cpu.ts';

/** The kernel's flags of the mapping that contains an address of this process. */
function flagsAt(address: bigint): readonly string[] {
  const mappings = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  const found = mappings.find((mapping) => {
    const [from = '', to = ''] = mapping.slice(0, mapping.indexOf(' ')).split('-');
    return BigInt(`0x${from}`) <= address && address < BigInt(`0x${to}`);
  });
  return (
    /^VmFlags: (.*)$/m
      .exec(found ?? '')?.[1]
      ?.trim()
      .split(' ') ?? []
  );
}

const hasHugePages = existsSync('/sys/kernel/mm/transparent_hugepage');

describe.runIf(hasHugePages)('the memory of a CPU backend', () => {
  it('asks for huge pages in its own part of a memory and nowhere else', async () => {
    const part = 64 * 65_536;
    const memory = new WebAssembly.Memory({ initial: 192, maximum: 192, shared: true });
    // The part does not begin or end at a page boundary.
    await cpu({ memory, byteOffset: part + 64, byteLength: part - 128 });
    const base = koffi.address(new Uint8Array(memory.buffer));
    const asks = (byteOffset: number): boolean => flagsAt(base + BigInt(byteOffset)).includes('hg');
    expect(asks(part + part / 2)).toBe(true);
    expect([0, part - 1, part, 2 * part - 1, 2 * part].map(asks)).toEqual(Array(5).fill(false));
  });
});
