import { expect, it } from 'vitest';
import { describeExample } from './describe-example.ts';

describeExample('contract.html', (open) => {
  it(
    'keeps the contract on WebAssembly, measures it, and writes a report',
    { timeout: 180_000 },
    () =>
      open({ path: 'contract.html', width: 360 }, async (page) => {
        await page.locator('#device').selectOption('wasm');
        await page.locator('#run').press('Enter');
        await page.locator('#copy:enabled').waitFor({ timeout: 170_000 });
        expect(await page.textContent('#status')).toBe('Done: the device keeps the contract.');
        expect(await page.textContent('#failed')).toBe('0');
        expect(Number(await page.textContent('#passed'))).toBeGreaterThan(1000);
        const report = (await page.textContent('#report')) ?? '';
        expect(report).toContain('Device: WebAssembly: it was asked for');
        expect(report).toMatch(/product of two 1024 × 1024 .*: [\d.]+ ms, [\d.]+ GFLOP\/s/);
        expect(report).toMatch(/a step of a GPT with 0.9 M weights.*: \d+ ms, [\d,]+ tokens/);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
      }),
  );
});
