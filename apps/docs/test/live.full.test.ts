import { expect, test } from 'vitest';
import { describeSite } from './site/describe-site.ts';
import { rowsOf } from './site/rows-of.ts';

describeSite('ranks of pages that do not only train', (site) => {
  test('two layers: columns then rows add partial sums once, and the result is that of one rank', async () => {
    const { page, problems } = await site.open('/explore/layer');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Step 1 of 6' }).waitFor();
    expect(await page.locator('.rank-parts').count()).toBe(2);
    expect(await rowsOf(page, 'The steps so far')).toEqual([
      ['1', 'x [4, 6]', 'replicate', 'none'],
      ['1', 'up [6, 8]', 'shard(1: tp)', ''],
      ['1', 'down [8, 6]', 'shard(0: tp)', ''],
    ]);
    for (const step of [2, 3, 4, 5]) {
      await page.getByRole('button', { name: 'Step', exact: true }).click();
      await page.locator('.summary', { hasText: `Step ${step} of 6` }).waitFor();
    }
    const said = (await page.locator('.summary').textContent()) ?? '';
    expect(said).toContain('The ranks call 1 allReduce.');
    expect(Number(/alone by ([\d.e+-]+) at most/.exec(said)?.[1])).toBeLessThan(1e-5);
    await page.getByRole('button', { name: 'All steps' }).click();
    await page.locator('.summary', { hasText: 'Step 6 of 6' }).waitFor();
    const rows = await rowsOf(page, 'The steps so far');
    expect(rows.map(([step, , , sent]) => [step, sent]).filter(([, sent]) => sent !== '')).toEqual([
      ['1', 'none'],
      ['2', 'none'],
      ['3', 'none'],
      ['4', 'none'],
      ['5', '1 allReduce'],
      ['6', '1 allReduce'],
    ]);
    expect(problems).toEqual([]);
    await page.close();
  });

  test('a pipeline: the trace has every action of the schedule, and each microbatch is somewhere', async () => {
    const { page, problems } = await site.open('/explore/microbatches');
    await page.getByLabel('Schedule', { exact: true }).selectOption('zbv');
    await page.getByLabel('Microbatches', { exact: true }).selectOption('4');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    const trace = page.getByRole('region', { name: 'What each rank computed in this step' });
    await trace.waitFor();
    // Two ranks have two stages each, and each microbatch has a forward, an input gradient and a weight gradient in
    // each.
    expect(await trace.locator('rect:not(.track)').count()).toBe(4 * 4 * 3);
    await page.getByRole('button', { name: 'Next action' }).click();
    const [first = []] = await rowsOf(page, 'The ranks at this moment');
    expect(first[1]).toMatch(/^(?:nothing: it waits|forward of microbatch \d in stage 0)$/);
    await page.getByRole('slider', { name: 'Moment' }).fill('1');
    expect(await rowsOf(page, 'The ranks at this moment')).toEqual([
      ['rank 0', 'nothing: it waits', 'none', 'none', '0'],
      ['rank 1', 'nothing: it waits', 'none', 'none', '0'],
    ]);
    expect(problems).toEqual([]);
    await page.close();
  });

  test('a hang: the page says which rank is to blame, and at which call', async () => {
    const { page } = await site.open('/explore/hang');
    const blame = page.locator('pre[aria-label="What blame says"]');
    const verdict = async (mistake: string): Promise<string> => {
      await page.getByLabel('A rank', { exact: true }).selectOption(mistake);
      await page.getByRole('button', { name: 'Train with the mistake' }).click();
      await page.locator('.summary', { hasText: /^Blame/ }).waitFor();
      return blame.innerText();
    };
    expect(await verdict('leaves out an all-reduce')).toMatch(
      /^Rank 1 differs first, at call #4 of group world:\n {2}ranks 0, 2 {2}allReduce\(sum, f32 \[64\]\)\n {2}rank 1 {6}barrier\(\)$/,
    );
    expect(await verdict('waits for something else')).toMatch(
      /^Rank 1 is missing first, at call #4 of group world:[^]*its last call was #3, barrier\(\), completed/,
    );
    expect(await verdict('calls it with another size')).toContain(
      'rank 1      allReduce(sum, f32 [32])',
    );
    expect(await verdict('computes without an end')).toContain('rank 1      left no dump');
    expect(await rowsOf(page, 'What the ranks have recorded')).toHaveLength(5);
    await page.close();
  });
});
