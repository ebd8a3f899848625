import type { Page } from 'playwright-core';

/** Makes choices, trains to the end, and returns the last loss. */
export async function trainInPage(
  page: Page,
  chosen: Readonly<Record<string, string>>,
): Promise<number> {
  for (const [label, option] of Object.entries(chosen)) {
    await page.getByLabel(label, { exact: true }).selectOption(option);
  }
  await page.getByRole('button', { name: 'Train', exact: true }).click();
  const summary = page.locator('.summary', { hasText: /^Done/ });
  await summary.waitFor({ timeout: 170_000 });
  const [, loss = 'none'] = /loss ([\d.e-]+)/.exec((await summary.textContent()) ?? '') ?? [];
  return Number(loss);
}
