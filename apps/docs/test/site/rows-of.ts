import type { Page } from 'playwright-core';

/** Texts of a table's body, by row. */
export async function rowsOf(page: Page, caption: string | RegExp): Promise<string[][]> {
  const rows = await page.getByRole('region', { name: caption }).locator('tbody tr').all();
  return Promise.all(rows.map((row) => row.locator('th, td').allInnerTexts()));
}
