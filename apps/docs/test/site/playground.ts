import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** The names of the programs that the playground offers. */
export function programsOf(page: Page): Promise<string[]> {
  return page.getByLabel('Program', { exact: true }).first().locator('option').allTextContents();
}

/** Runs a program in the playground. Expects what its comments say that it prints. */
export async function expectPrinted(page: Page, name: string): Promise<void> {
  await page.getByLabel('Program', { exact: true }).first().selectOption(name);
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('button', { name: 'Run', exact: true }).waitFor({ timeout: 60_000 });
  const printed = await page.locator('.output').innerText();
  const source = readFileSync(join(import.meta.dirname, `../../examples/${name}.ts`), 'utf8');
  for (const [, text = ''] of source.matchAll(/\/\/ prints (.*)$/gm)) {
    expect(printed, name).toContain(text.trim());
  }
}
