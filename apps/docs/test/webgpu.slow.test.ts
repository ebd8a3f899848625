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
