import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { describeSite } from './site/describe-site.ts';
import { rowsOf } from './site/rows-of.ts';
import { trainExperts, trainInPage } from './site/train-in-page.ts';

describeSite('trainings in pages', (site) => {
  test('a rank that is killed is named, and all go on from the last checkpoint to the loss of a run without it', async () => {
    const { page } = await site.open('/explore/training');
    const undisturbed = await trainInPage(page, { Ranks: '2', Strategy: 'fsdp' });
    // The test steps, so that the training is not over before the rank is killed.
    for (let step = 1; step <= 22; step++) {
      await page.getByRole('button', { name: 'Step', exact: true }).click();
      await page.locator('.summary', { hasText: `Paused: ${step} of` }).waitFor();
    }
    await page.getByRole('button', { name: 'Kill rank 1' }).click();
    await page.getByText('rank 1 of the world ended the group').first().waitFor();
    await page.getByText(/started again, from the checkpoint of step 20\./).waitFor();
    const summary = page.locator('.summary', { hasText: /^Done/ });
    await summary.waitFor({ timeout: 120_000 });
    expect(await summary.textContent()).toContain(`loss ${undisturbed}`);
    await page.close();
  }, 300_000);

  test('DDP beside FSDP: one press trains both, the losses coincide, a rank keeps half, and the messages are known', async () => {
    const { page, problems } = await site.open('/explore/ddp-fsdp');
    await page.getByRole('button', { name: 'Train', exact: true }).click();
    const verdict = page.locator('.summary', { hasText: /^(?:All losses|The losses)/ });
    await verdict.waitFor({ timeout: 170_000 });
    const said = (await verdict.textContent()) ?? '';
    expect(Number(/further apart than ([\d.e-]+)/.exec(said)?.[1] ?? 0)).toBeLessThan(1e-5);
    expect(said).toMatch(/rank 0 keeps 50(?:\.\d)? % of what .* a step sends 1\.[1-5]\d* times/);
    const lines = await page.locator('.plot .line').all();
    const [ddp, fsdp] = await Promise.all(lines.map((line) => line.getAttribute('points')));
    expect(ddp?.split(' ')).toHaveLength(100);
    const heights = (points = ''): number[] =>
      points.split(' ').map((at) => Number(at.split(',')[1]));
    for (const [step, height] of heights(ddp ?? '').entries()) {
      expect(heights(fsdp ?? '')[step]).toBeCloseTo(height, 2);
    }
    for (const [, kept, planned, part, plannedPart] of await rowsOf(
      page,
      /^Bytes that each rank/,
    )) {
      expect([kept, part]).toEqual([planned, plannedPart]);
      expect(kept).not.toBe(part);
    }
    const messages = await rowsOf(page, 'Messages of a step');
    expect(messages.map(([strategy, collective]) => `${strategy} ${collective}`)).toEqual([
      'ddp allReduce',
      'fsdp allGather',
      'fsdp reduceScatter',
    ]);
    // The plan of FSDP also contains what the backward pass need not collect.
    const bytes = messages.map(([, , , found = '', planned = '']) =>
      [found, planned].map((text) => Number.parseFloat(text)),
    );
    expect(bytes.map(([found = 0, planned = 0]) => Math.abs(found / planned - 1) < 0.01)).toEqual([
      true,
      true,
      true,
    ]);
    expect(problems).toEqual([]);
    await page.close();
  }, 200_000);

  // The slow test balances them by nothing, and by a bias.
  test('experts drop few tokens by a loss', async () => {
    const { page, problems } = await site.open('/explore/experts');
    const { loss, dropped } = await trainExperts(page, 'by a loss');
    expect(loss).toBeLessThan(0.4);
    expect(dropped).toBeLessThan(15);
    expect(problems).toEqual([]);
    await page.close();
  }, 200_000);

  test('workers of a parameter server wait for a slow one, or have gradients that are stale', async () => {
    const { page, problems } = await site.open('/explore/servers');
    const workers = page.getByRole('region', { name: 'The workers' });
    const worst = async (worker: number): Promise<number> =>
      Number.parseInt(
        await workers.locator('tbody tr').nth(worker).locator('td').nth(3).innerText(),
        10,
      );
    expect(await trainInPage(page, { Consistency: 'synchronous' })).toBeLessThan(0.1);
    expect(await worst(0)).toBe(0);
    expect(await workers.locator('tbody tr').nth(1).locator('td').nth(4).innerText()).toMatch(
      / s$/,
    );
    expect(await trainInPage(page, { Consistency: 'asynchronous' })).toBeLessThan(0.3);
    expect(await worst(0)).toBeGreaterThan(3);
    expect(problems).toEqual([]);
    await page.close();
  }, 400_000);

  test('a sine is fitted, and two spirals are told apart, with the points and times of each rank', async () => {
    const { page, problems } = await site.open('/explore/training');
    expect(await trainInPage(page, { Task: 'sine', Ranks: '1' })).toBeLessThan(0.01);
    await trainInPage(page, { Task: 'two spirals', Ranks: '2' });
    const said = await page.getByText(/% of points are right/).textContent();
    expect(Number(/([\d.]+) %/.exec(said ?? '')?.[1])).toBeGreaterThan(95);
    expect(
      await page.locator('.plot').first().locator('rect[stroke="var(--rank-1)"]').count(),
    ).toBe(48);
    // The timeline shows what each rank computes and sends, and its numbers are a file.
    const timeline = page.locator('.timeline');
    expect(await timeline.locator('rect').count()).toBeGreaterThan(8);
    await timeline.getByText('Numbers').click();
    const file = page.waitForEvent('download');
    await timeline.getByRole('button', { name: /CSV/ }).click();
    const rows = (await readFile(await (await file).path(), 'utf8')).trim().split('\r\n');
    expect(rows[0]).toBe('rank,kind,what,begins (ms),takes (ms)');
    expect(rows.filter((row) => /^[01],collective,allReduce/.test(row)).length).toBeGreaterThan(1);
    expect(problems).toEqual([]);
    await page.close();
  }, 200_000);

  test('a training pauses when nobody sees the page', async () => {
    const { page } = await site.open('/explore/training');
    // The observer runs in the page, so that the training is not over before the page is hidden.
    await page.evaluate(() => {
      new MutationObserver((_, observer) => {
        if (!/Training: [1-9]/.test(document.querySelector('.summary')?.textContent ?? '')) return;
        observer.disconnect();
        Object.defineProperty(document, 'hidden', { get: () => true });
        document.dispatchEvent(new Event('visibilitychange'));
      }).observe(document.body, { subtree: true, childList: true, characterData: true });
    });
    await page.getByRole('button', { name: 'Train', exact: true }).click();
    await page.locator('.summary', { hasText: /^Paused: [1-9]/ }).waitFor();
    // Here the page is hidden before ranks have started.
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.getByRole('button', { name: 'Train', exact: true }).evaluate((button) => {
      if (button instanceof HTMLElement) button.click();
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await page.locator('.summary', { hasText: 'Paused: 0 of' }).waitFor();
    await page.close();
  });
});
