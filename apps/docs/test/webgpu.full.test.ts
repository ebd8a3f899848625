import { expect, test } from 'vitest';
import { describeSite } from './site/describe-site.ts';

describeSite(
  'trainings on WebGPU',
  (site) => {
    test('a sine is fitted on it, and a program of the playground is started on it', async () => {
      const { page, problems } = await site.open('/explore/training');
      await page.getByLabel('Device', { exact: true }).selectOption('webgpu');
      await page.getByLabel('Task', { exact: true }).selectOption('sine');
      await page.getByLabel('Ranks', { exact: true }).selectOption('1');
      await page.getByRole('button', { name: 'Train', exact: true }).click();
      const summary = page.locator('.summary', { hasText: /^Done/ });
      await summary.waitFor({ timeout: 170_000 });
      const [, loss] = /loss ([\d.e-]+)/.exec((await summary.textContent()) ?? '') ?? [];
      expect(Number(loss)).toBeLessThan(0.01);
      await page.goto(`${site.url}/explore/playground`, { waitUntil: 'networkidle' });
      await page.getByLabel('Device', { exact: true }).selectOption('webgpu');
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.locator('.output', { hasText: 'on WebGPU (it was asked for)' }).waitFor();
      expect(problems).toEqual([]);
      await page.close();
    }, 300_000);
  },
  { withWebGpu: true },
);

describeSite('trainings in a browser without WebGPU', (site) => {
  test('offer it not, and say why', async () => {
    const { page, problems } = await site.open('/explore/training');
    // The page shows this after it has asked for an adapter.
    const option = page.getByLabel('Device', { exact: true }).locator('option', {
      hasText: /^webgpu, not available: WebGPU has no adapter here$/,
    });
    expect(await option.isDisabled()).toBe(true);
    await page.getByLabel('Ranks', { exact: true }).selectOption('1');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    expect(await page.locator('p.setting', { hasText: '1 rank' }).textContent()).toBe(
      '1 rank on WebAssembly (WebGPU has no adapter here)',
    );
    expect(problems).toEqual([]);
    await page.close();
  });
});
