import { expect, test } from 'vitest';
import { describeSite } from './site/describe-site.ts';

/** Every page whose ranks train. */
const trainings = ['training', 'addition', 'text', 'experts', 'servers', 'microbatches'];

describeSite(
  'trainings on WebGPU',
  (site) => {
    test.each(trainings)(
      '%s does a step on it, and says so',
      async (name) => {
        const { page, problems } = await site.open(`/explore/${name}`);
        await page.getByLabel('Device', { exact: true }).selectOption('webgpu');
        await page.getByRole('button', { name: 'Step', exact: true }).click();
        await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor({ timeout: 100_000 });
        const setting = await page.locator('p.setting', { hasText: 'on WebGPU' }).textContent();
        expect(setting).toContain('on WebGPU (it was asked for)');
        expect(problems).toEqual([]);
        await page.close();
      },
      120_000,
    );
  },
  { withWebGpu: true },
);

describeSite(
  'requests that a page serves on WebGPU',
  (site) => {
    test('are answered, too', async () => {
      const { page, problems } = await site.open('/guides/serve');
      await page.getByLabel('Device', { exact: true }).selectOption('webgpu');
      await page.getByLabel('Steps of training', { exact: true }).selectOption('25');
      await page.getByLabel('Steps that answer', { exact: true }).selectOption('as they come');
      await page.getByRole('button', { name: 'Train and serve' }).click();
      const ask = page.getByRole('button', { name: 'Ask six at once' });
      await ask.waitFor({ timeout: 300_000 });
      await ask.click();
      await page.locator('.served li.over').nth(5).waitFor({ timeout: 150_000 });
      const said = (await page.locator('.explorer .summary').textContent()) ?? '';
      expect(said).toMatch(/^0 run, 0 wait, 0 of 24 blocks are used\. .* by WebGPU/);
      expect(problems).toEqual([]);
      await page.close();
    }, 600_000);
  },
  { withWebGpu: true },
);
