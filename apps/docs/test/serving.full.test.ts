import { expect, test } from 'vitest';
import { describeSite } from './site/describe-site.ts';

const WAIT_MS = 150_000;

describeSite('requests that a page serves', (site) => {
  test('join and leave a batch, lose their blocks when these run out, and are all answered', async () => {
    const { page, problems } = await site.open('/guides/serve');
    const summary = page.locator('.explorer .summary');
    expect(await page.locator('.explorer .grid .block').count()).toBe(24);
    await page.getByLabel('Device', { exact: true }).selectOption('wasm');
    await page.getByLabel('Steps of training', { exact: true }).selectOption('25');
    await page.getByRole('button', { name: 'Train and serve' }).click();
    const ask = page.getByRole('button', { name: 'Ask six at once' });
    await ask.waitFor({ timeout: WAIT_MS });
    await ask.click();
    // The first blocks of two requests are the same ones.
    await page.locator('.explorer .grid .block.shared').first().waitFor();
    await page.locator('.served .state', { hasText: 'interruptions' }).first().waitFor();
    await page.getByRole('textbox', { name: 'A request' }).fill('The ranks ');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.getByRole('button', { name: 'Cancel request 6' }).click();
    await page.getByLabel('Steps that answer', { exact: true }).selectOption('as they come');
    await page.locator('.served li.over').nth(6).waitFor({ timeout: WAIT_MS });
    const said = (await summary.textContent()) ?? '';
    expect(said).toMatch(/^0 run, 0 wait, 0 of 24 blocks are used\. .* by WebAssembly/);
    expect(Number(/interruptions: (\d+)/.exec(said)?.[1])).toBeGreaterThan(0);
    // A prompt and its answer have as many bytes as the context has places.
    const lengths = await page
      .locator('.served q')
      .evaluateAll((all) => all.slice(0, 6).map((each) => each.textContent.length));
    expect(lengths).toEqual([64, 64, 64, 64, 64, 64]);
    expect(problems).toEqual([]);
    await page.close();
  });
});
