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

/** Trains experts that are balanced in one way. Returns the last loss, and the percentage of tokens that are dropped. */
export async function trainExperts(
  page: Page,
  balance: string,
): Promise<{ readonly loss: number; readonly dropped: number }> {
  const loss = await trainInPage(page, { Balance: balance, Capacity: '1.25 shares' });
  const text = await page.locator('.loads').textContent();
  return { loss, dropped: Number(/([\d.]+) % of tokens are dropped/.exec(text ?? '')?.[1]) };
}
