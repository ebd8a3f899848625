import { expect, it } from 'vitest';
import { describeExample } from './describe-example.ts';

describeExample('contract.html', (open) => {
  it('keeps the contract on WebGPU', { timeout: 300_000 }, () =>
    open({ path: 'contract.html', width: 1200, withWebGpu: true }, async (page) => {
      await page.locator('#device').selectOption('webgpu');
      await page.locator('#run').click();
      await page.locator('#copy:enabled').waitFor({ timeout: 280_000 });
      expect(await page.textContent('#status')).toBe('Done: the device keeps the contract.');
      const report = await page.textContent('#report');
      expect(report).toContain('Device: WebGPU: it was asked for');
      expect(report).toMatch(/Adapter: google, swiftshader/);
    }),
  );
});
