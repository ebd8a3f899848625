import { describe, expect, it } from 'vitest';
import type { ArmReport } from './arm-report.ts';
import { findEmulator } from './emulator.ts';

const emulator = findEmulator();
const reason = 'missing' in emulator ? ` (not here: ${emulator.missing})` : '';
/** QEMU computes each instruction in software. The contract takes one to three minutes. */
const timeoutMs = 900_000;

const products = new URL('./products-on-arm.ts', import.meta.url);
const guardPages = new URL('../products/guard-pages.ts', import.meta.url);

async function run(file: URL, processor: string): Promise<string> {
  if ('missing' in emulator) throw new Error(emulator.missing);
  return emulator.run(file, processor);
}

describe.skipIf('missing' in emulator)(`an emulated AArch64 processor${reason}`, () => {
  it(
    'computes products in machine code as the contract of backends and rounding demand',
    async () => {
      const report: ArmReport = JSON.parse(await run(products, 'max'));
      expect(report.machine).toEqual({ f32: 'NEON', bf16: 'BFMMLA' });
      expect(report.sumsAreFused).toBe(true);
      for (const [way, error] of Object.entries(report.errors)) {
        expect(error, way).toBeLessThanOrEqual(1);
      }
      expect(Object.keys(report.errors)).toHaveLength(4);
      expect(report.contract?.failures).toEqual([]);
      expect(report.contract?.passed).toBeGreaterThan(1000);
    },
    timeoutMs,
  );

  it(
    'reads and writes nothing that is not part of an operand',
    { timeout: timeoutMs },
    async () => {
      // A byte too many would crash the process, and reject.
      await expect(run(guardPages, 'max')).resolves.toBe('');
    },
  );

  it('without BFMMLA says why it has no machine code', { timeout: timeoutMs }, async () => {
    const report: ArmReport = JSON.parse(await run(products, 'cortex-a72'));
    expect(report.machine).toBe('the processor has no BFMMLA');
    expect(report.contract).toBeNull();
  });
});
