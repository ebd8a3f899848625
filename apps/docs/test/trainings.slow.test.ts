import { expect, test } from 'vitest';
import { describeSite } from './site/describe-site.ts';
import { expectPrinted, programsOf } from './site/playground.ts';
import { trainExperts, trainInPage } from './site/train-in-page.ts';

describeSite('long trainings in pages', (site) => {
  test('a transformer adds numbers that it has never seen', async () => {
    const { page, problems } = await site.open('/explore/addition');
    await trainInPage(page, { Ranks: '2' });
    const said = await page.getByText(/of sums that it has never seen are right/).textContent();
    expect(Number.parseFloat(said ?? '')).toBeGreaterThan(90);
    expect(problems).toEqual([]);
    await page.close();
  }, 300_000);

  test('a transformer learns more of a text than which byte follows which, with FSDP as with DDP', async () => {
    const { page, problems } = await site.open('/explore/text');
    const loss = await trainInPage(page, { Ranks: '2', Strategy: 'ddp' });
    const pairs = page.locator('.plot .mark');
    expect(await pairs.count()).toBe(1);
    expect(loss).toBeLessThan(1.5);
    expect(await page.locator('.summary').textContent()).toMatch(/[\d,]+ tokens\/s/);
    expect((await page.locator('.sample').textContent())?.length).toBeGreaterThan(40);
    expect(await trainInPage(page, { Ranks: '2', Strategy: 'fsdp' })).toBeCloseTo(loss, 1);
    // The row of each run contains its name, its last loss, and what a rank keeps as measured and as planned.
    const runs = page.getByRole('region', { name: 'The runs so far' }).locator('tbody tr');
    const rows = await Promise.all(
      (await runs.all()).map((row) => row.locator('th, td').allInnerTexts()),
    );
    const megabytes = rows.map(([name = '', , keeps = '', plan = '']) => {
      expect(keeps, name).toBe(plan);
      return Number.parseFloat(keeps);
    });
    // The two ranks of FSDP share out all states.
    expect(megabytes).toHaveLength(2);
    expect((megabytes[0] ?? 0) / (megabytes[1] ?? 1)).toBeCloseTo(2, 1);
    expect(await page.locator('.plot .line').count()).toBe(2);
    expect(problems).toEqual([]);
    await page.close();
  }, 300_000);

  test('experts drop most tokens where nothing balances them, and few by a bias', async () => {
    const { page, problems } = await site.open('/explore/experts');
    const unbalanced = await trainExperts(page, 'by nothing');
    expect(unbalanced.loss).toBeLessThan(1);
    expect(unbalanced.dropped).toBeGreaterThan(25);
    const balanced = await trainExperts(page, 'by a bias');
    expect(balanced.loss).toBeLessThan(0.4);
    expect(balanced.dropped).toBeLessThan(15);
    expect(problems).toEqual([]);
    await page.close();
  }, 400_000);

  test('workers of a parameter server that may be at most 4 steps stale lead by no more', async () => {
    const { page, problems } = await site.open('/explore/servers');
    expect(await trainInPage(page, { Consistency: 'at most 4 steps stale' })).toBeLessThan(0.2);
    const workers = page.getByRole('region', { name: 'The workers' });
    const lead = await workers.locator('tbody tr').nth(1).locator('td').nth(1).innerText();
    expect(Number.parseInt(lead, 10)).toBeLessThanOrEqual(5);
    expect(problems).toEqual([]);
    await page.close();
  }, 300_000);

  test('one, two and four ranks lose alike, and FSDP as DDP', async () => {
    const { page, problems } = await site.open('/explore/training');
    const alone = await trainInPage(page, { Ranks: '1', Strategy: 'ddp' });
    expect(alone).toBeLessThan(0.05);
    for (const [ranks, strategy] of [
      ['2', 'ddp'],
      ['2', 'fsdp'],
      ['4', 'ddp'],
    ] as const) {
      const loss = await trainInPage(page, { Ranks: ranks, Strategy: strategy });
      expect(loss / alone).toBeCloseTo(1, 0);
    }
    expect(problems).toEqual([]);
    await page.close();
  }, 400_000);

  test('every program of the playground prints in the page what it says that it prints', async () => {
    const { page, problems } = await site.open('/explore/playground');
    for (const name of await programsOf(page)) await expectPrinted(page, name);
    expect(problems).toEqual([]);
    await page.close();
  }, 300_000);
});
