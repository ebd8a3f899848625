import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createServer } from 'vitepress';
import { beforeAll, describe, expect, test } from 'vitest';
import { isolation } from '../.vitepress/isolation.ts';
import { buildSite } from './site/build-site.ts';
import { describeSite } from './site/describe-site.ts';
import { linkFaults } from './site/link-faults.ts';
import { expectPrinted, programsOf } from './site/playground.ts';
import { rowsOf } from './site/rows-of.ts';
import { trainInPage } from './site/train-in-page.ts';
import { built, serveSite } from '../.vitepress/serve-site.ts';

beforeAll(buildSite, 300_000);

describe('the built site', () => {
  test('has every page as Markdown, too, and lists them in llms.txt', () => {
    const list = readFileSync(join(built, 'llms.txt'), 'utf8');
    const copies = [...list.matchAll(/\]\((\/[^)]+\.md)\)/g)].map(([, path = '']) => path);
    expect(copies.length).toBeGreaterThan(60);
    for (const copy of copies) expect(readFileSync(join(built, copy), 'utf8')).toMatch(/^# /);
  });

  test('has no link to a page, a file or an anchor that there is not', () => {
    expect(linkFaults()).toEqual([]);
  });

  test('has pages of the reference that are soon read: none has more than 150 kB of HTML', () => {
    const paths = globSync('reference/**/*.html', { cwd: built });
    expect(paths.length).toBeGreaterThan(90);
    const long = paths.filter((path) => statSync(join(built, path)).size > 150_000);
    expect(long).toEqual([]);
  });

  test('has colours of code as classes, which are shorter than styles', () => {
    const paths = globSync('**/*.html', { cwd: built });
    const isStyled = (path: string): boolean =>
      readFileSync(join(built, path), 'utf8').includes('<span style="--shiki-light');
    expect(paths.filter(isStyled)).toEqual([]);
  });

  test('tells its host to isolate pages, and has a service worker that sends the same headers', () => {
    const headers = readFileSync(join(built, '_headers'), 'utf8');
    const worker = readFileSync(join(built, 'isolate.js'), 'utf8');
    for (const [name, value] of Object.entries(isolation)) {
      expect(headers).toContain(`${name}: ${value}`);
      expect(worker).toContain(`headers.set('${name}', '${value}')`);
    }
  });

  test('has explorers that are inert until the page answers to their controls', () => {
    for (const path of ['training', 'pipelines', 'playground']) {
      const html = readFileSync(join(built, `explore/${path}.html`), 'utf8');
      expect(html, path).toMatch(/<section class="explorer"[^>]* inert>/);
    }
  });

  test('isolates pages while they are written, too', async () => {
    const development = await createServer(join(import.meta.dirname, '..'), { port: 0 });
    try {
      await development.listen();
      const [url = ''] = development.resolvedUrls?.local ?? [];
      const { headers } = await fetch(`${url}learn/pipelines`);
      for (const [name, value] of Object.entries(isolation)) expect(headers.get(name)).toBe(value);
    } finally {
      await development.close();
    }
  });
});

describeSite('in a browser', (site) => {
  test('a page that is not there searches for the words of its address', async () => {
    const { page } = await site.open('/pipeline-schedules');
    await page.getByRole('link', { name: 'Pipeline schedules' }).first().waitFor();
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toContain('not here');
    await page.close();
  });

  test('the reference leads to the page that tries the device, which runs the tests of backends', async () => {
    const { page, problems } = await site.open('/reference/browsers');
    await page.getByRole('link', { name: 'Try this device' }).click();
    await page.getByRole('heading', { level: 1, name: 'Try this device' }).waitFor();
    await page.getByLabel('Device').selectOption('wasm');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.locator('#passed', { hasText: /[1-9]/ }).waitFor();
    expect(await page.textContent('#failed')).toBe('0');
    expect(problems).toEqual([]);
    await page.close();
  });

  test('explorers that move by themselves first draw what the server has written', async () => {
    for (const [path, name] of [
      ['/explore/collectives', 'Play'],
      ['/explore/microbatches', 'Play the step'],
    ] as const) {
      const { page, problems } = await site.open(path, { motion: true });
      await page.getByRole('button', { name, exact: true }).waitFor();
      expect(problems).toEqual([]);
      await page.close();
    }
  });

  test('search finds a name of the reference', async () => {
    const { page, problems } = await site.open('/');
    await page
      .getByRole('button', { name: /search/i })
      .first()
      .click();
    await page.getByRole('searchbox').fill('planRedistribution');
    await page.locator('.results a').first().waitFor();
    expect(await page.locator('.results').textContent()).toContain('planRedistribution');
    expect(problems).toEqual([]);
    await page.close();
  });

  test('explorers answer to their controls, by keys alone', async () => {
    const { page, problems } = await site.open('/explore/pipelines');
    const summary = page.locator('.explorer .summary');
    const before = await summary.textContent();
    await page.getByLabel('Schedule', { exact: true }).selectOption('zbv');
    expect(await summary.textContent()).not.toBe(before);
    await page.getByRole('slider', { name: 'Microbatches' }).focus();
    await page.keyboard.press('ArrowRight');
    expect(await summary.textContent()).toContain('zbv');
    const field = page.getByRole('spinbutton', { name: 'Microbatches, number' });
    expect(await field.inputValue()).toBe('9');
    await field.fill('12');
    expect(await page.getByRole('slider', { name: 'Microbatches' }).inputValue()).toBe('12');
    await field.fill('99');
    await field.press('Tab');
    expect(await field.inputValue()).toBe('24');
    const collectives = `${site.url}/explore/collectives`;
    expect(await (await fetch(collectives)).text()).toContain('The messages are being recorded.');
    await page.goto(collectives, { waitUntil: 'networkidle' });
    await page.getByRole('button', { name: 'Step' }).click();
    expect(await page.locator('.explorer caption').first().textContent()).toBe(
      'Messages of round 2',
    );
    expect(problems).toEqual([]);
    await page.close();
  });

  test('layouts of FSDP and ZeRO: uneven shares of rows, even ones of elements, and the collectives between', async () => {
    const { page, problems } = await site.open('/explore/layouts');
    const moves = async (from: string, to: string): Promise<(string | undefined)[]> => {
      await page.getByLabel('From', { exact: true }).selectOption(from);
      await page.getByLabel('To', { exact: true }).selectOption(to);
      const steps = await rowsOf(page, 'The way');
      return steps.map(([step]) => step?.split(' ')[0]);
    };
    await page.getByRole('slider', { name: 'dp' }).fill('3');
    await page.getByRole('slider', { name: 'tp' }).fill('1');
    expect(await moves('partial sums over dp', 'rows over dp (FSDP)')).toEqual(['reduceScatter']);
    const shares = async (): Promise<(string | undefined)[]> =>
      (await rowsOf(page, 'What each rank has')).map(([, , , after]) => after);
    expect(await shares()).toEqual(['18', '18', '12']);
    expect(await moves('partial sums over dp', 'elements over dp (ZeRO)')).toEqual([
      'reduceScatter',
    ]);
    expect(await shares()).toEqual(['16', '16', '16']);
    const picture = page.locator('pre[aria-label="Which rank has what: To"]');
    expect((await picture.innerText()).split('\n').slice(2, 5)).toEqual([
      '0 0 0 0 0 0',
      '0 0 0 0 1 1',
      '1 1 1 1 1 1',
    ]);
    expect(await moves('rows over dp (FSDP)', 'the same everywhere')).toEqual(['allGather']);
    expect(problems).toEqual([]);
    await page.close();
  });

  test('the memory of a rank is what the plans say: 16 bytes of a parameter with Adam, shared out by stages', async () => {
    const { page, problems } = await site.open('/explore/memory');
    const rows = page.getByRole('region', { name: 'What a rank keeps' }).locator('tbody tr');
    const formulas = async (): Promise<(string | undefined)[]> => {
      const cells = await rows.all();
      return Promise.all(
        cells.map(async (row) => (await row.locator('td').allInnerTexts()).at(-1)),
      );
    };
    expect(await formulas()).toEqual(['16Ψ', '8Ψ + 8Ψ/N', '4Ψ + 12Ψ/N', '16Ψ/N', '16Ψ/N']);
    await page.getByLabel('Precision', { exact: true }).selectOption('bf16, with f32 copies');
    expect(await formulas()).toEqual(['16Ψ', '4Ψ + 12Ψ/N', '2Ψ + 14Ψ/N', '16Ψ/N', '16Ψ/N']);
    // The figure is that of GPT-2 in 16 bits with 4 rows of 1024 tokens.
    const activations = rows.first().locator('td').nth(3);
    await activations.filter({ hasText: 'GiB' }).waitFor();
    expect(Number.parseFloat(await activations.innerText())).toBeGreaterThan(2);
    await page.getByLabel('Recompute', { exact: true }).selectOption('each block');
    await activations.filter({ hasText: 'MiB' }).waitFor();
    const recomputed = await activations.innerText();
    await page.getByText('What explain prints of a plan').click();
    await page.getByLabel('Plan', { exact: true }).selectOption('ddp');
    const printed = page.locator('pre[aria-label="What explain prints"]', { hasText: 'ddp on' });
    await printed.waitFor();
    const text = await printed.innerText();
    expect(text).toMatch(/^ddp on dp=8; batch: shard\(0: dp\); products in bf16/);
    expect(text).toContain('states: 16Ψ = 16 × ');
    const [, bytes] = /^activations +(\d+)$/m.exec(text) ?? [];
    expect(`${Math.round(Number(bytes) / 2 ** 20)} MiB`).toBe(recomputed);
    expect(problems).toEqual([]);
    await page.close();
  });

  test('ranks train in a page: one and four lose alike', async () => {
    const { page, problems } = await site.open('/explore/training');
    const alone = await trainInPage(page, { Ranks: '1', Strategy: 'ddp' });
    const four = await trainInPage(page, { Ranks: '4', Strategy: 'ddp' });
    expect(alone).toBeLessThan(0.05);
    expect(four / alone).toBeCloseTo(1, 0);
    expect(await page.getByRole('button', { name: 'Stop', exact: true }).isDisabled()).toBe(true);
    expect(problems).toEqual([]);
    await page.close();
  }, 400_000);

  test.each([
    { width: 1280, height: 800 },
    { width: 390, height: 844 },
  ])('the first screen of $width px has the command, a program and a training', async (size) => {
    const { page, problems } = await site.open('/', { width: size.width });
    await page.setViewportSize(size);
    const parts = [
      page.getByRole('heading', { level: 1 }),
      page.locator('.install-command'),
      page.locator('.first-code'),
      page.locator('.first-training'),
    ];
    for (const part of parts) {
      const box = await part.boundingBox();
      expect(box?.y).toBeGreaterThan(0);
      expect((box?.y ?? 0) + (box?.height ?? Infinity)).toBeLessThanOrEqual(size.height);
    }
    await page.getByRole('button', { name: 'Train', exact: true }).click();
    const summary = page.locator('.summary', { hasText: /^Done: 200 of 200 steps/ });
    await summary.waitFor();
    expect(await page.locator('.first-training .plot .line').getAttribute('points')).toMatch(/,/);
    expect(problems).toEqual([]);
    await page.close();
  });

  test('nothing of a page moves while ranks train on it', async () => {
    const { page } = await site.open('/explore/training');
    const places = (): Promise<readonly string[]> =>
      page
        .locator('.plot, .explorer .legend, .explorer .table table, .timeline svg')
        .evaluateAll((parts) =>
          parts.map((part) => {
            const { x, y, width, height } = part.getBoundingClientRect();
            return [part.tagName, x, y + scrollY, width, height].join(' ');
          }),
        );
    const before = await places();
    await page.getByRole('button', { name: 'Train', exact: true }).click();
    await page.locator('.timeline figcaption', { hasText: /step [1-9]/ }).waitFor();
    expect(await places()).toEqual(before);
    await page.locator('.summary', { hasText: /^Done/ }).waitFor();
    expect(await places()).toEqual(before);
    await page.close();
  });

  test('four ranks train on a phone, and the chart has no numbers before there are values', async () => {
    const { page, problems } = await site.open('/explore/training', { width: 360 });
    const chart = page.locator('figure', { hasText: /^Loss/ }).first();
    expect(await chart.locator('svg text').allTextContents()).toEqual(['no values yet']);
    expect(await chart.locator('.tick').count()).toBe(0);
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    expect(await chart.locator('.tick').count()).toBeGreaterThan(1);
    const ranks = page.getByRole('region', { name: 'The ranks' });
    expect(await ranks.locator('tbody th').allInnerTexts()).toEqual(
      [0, 1, 2, 3].map((rank) => `rank ${rank}`),
    );
    // The table is wider than a phone. It scrolls in its own box, whose edges show that.
    const box = await ranks.evaluate((element) => ({
      isCut: element.scrollWidth > element.clientWidth,
      edges: getComputedStyle(element).backgroundImage,
    }));
    expect(box.isCut).toBe(true);
    expect(box.edges).toContain('linear-gradient');
    expect(problems).toEqual([]);
    await page.close();
  });

  test('the sidebar shows the decisions on their own pages alone', async () => {
    const { page } = await site.open('/how-it-works/architecture');
    const first = page.locator('.VPSidebar').getByRole('link', { name: /one lazy graph/i });
    await page.locator('.VPSidebar').getByText('Decisions', { exact: true }).waitFor();
    expect(await first.isVisible()).toBe(false);
    await page.goto(`${site.url}/how-it-works/decisions/0002-two-tiers-of-ops`);
    await first.waitFor();
    await page.close();
  });

  test('a training pauses, steps, and ends at once', async () => {
    const { page } = await site.open('/explore/training');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 2 of' }).waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    expect(await page.locator('.summary').textContent()).toBe('Not started.');
    await page.close();
  });

  test('a rank that is killed is named by the others, and all begin again', async () => {
    const { page } = await site.open('/explore/training');
    await page.getByLabel('Ranks', { exact: true }).selectOption('3');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    await page.getByRole('button', { name: 'Kill rank 2' }).click();
    await page.getByText('rank 2 of the world ended the group').first().waitFor();
    await page.getByText('all ranks were started again').waitFor();
    await page.close();
  });

  test('programs of the playground print in the page what they say that they print', async () => {
    const { page, problems } = await site.open('/explore/playground');
    const names = await programsOf(page);
    expect(names.length).toBeGreaterThan(15);
    // The slow test runs all of them.
    for (const name of names.filter((_, index) => index % 6 === 0)) {
      await expectPrinted(page, name);
    }
    expect(problems).toEqual([]);
    await page.close();
  }, 300_000);

  test('a program of a page runs in its place, and is shared as a link to the playground', async () => {
    const { page, problems } = await site.open('/learn/all-reduce');
    await page.getByRole('button', { name: 'Run and edit all-reduce' }).click();
    await page.locator('.output', { hasText: 'rank 2 has 3 30' }).waitFor();
    await page.locator('.cm-content').fill("console.log('edited');");
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.locator('.output', { hasText: 'edited' }).waitFor();
    await page.getByRole('button', { name: 'Reset' }).click();
    expect(await page.locator('.cm-content').innerText()).toContain('createLoopbackTransports');
    expect(problems).toEqual([]);
    await page.close();
  });

  test('a program without an end is stopped at once, and the page answers meanwhile', async () => {
    const { page } = await site.open('/explore/playground');
    const editor = page.locator('.cm-content');
    await editor.fill("console.log('begins'); while (true) {}");
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('begins', { exact: true }).last().waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped.').waitFor();
    await page.close();
  });

  test('a program that prints without an end can be stopped, and its last lines are there', async () => {
    const { page } = await site.open('/explore/playground');
    await page.locator('.cm-content').fill('for (let line = 1; ; line += 1) console.log(line);');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.locator('.output pre').nth(999).waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped.').waitFor();
    expect(await page.locator('.said').textContent()).toBe('Ended. The last 1000 lines are here.');
    await page.close();
  });

  test('a mistake in a program is said with its line, and a rank names the one that made it', async () => {
    const { page } = await site.open('/explore/playground');
    const says = async (...program: readonly string[]): Promise<string[]> => {
      await page.locator('.cm-content').fill(program.join('\n'));
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.getByRole('button', { name: 'Run', exact: true }).waitFor();
      return page.locator('.output pre').allInnerTexts();
    };
    expect(await says('let x = 1;', 'x = ;')).toEqual([
      'The program was not run: Unexpected token in line 2, column 5. Correct it there, and run it again',
    ]);
    expect(
      await says("import { notThere } from 'shardwise';", 'console.log(1);', 'notThere();'),
    ).toEqual([
      '1',
      "SyntaxError: import { notThere } from 'shardwise': it exports no such name. The reference lists all names that there are\n    in line 3",
    ]);
    expect(await says('const deeper = () => deeper() + 1;', 'deeper();')).toEqual([
      'RangeError: Maximum call stack size exceeded\n    in line 1',
    ]);
    expect(await says('throw { code: 3 };')).toEqual([
      'The program has thrown { code: 3 }, which is no Error. Throw new Error(…), which says where it was thrown',
    ]);
    expect(
      await says(
        "setTimeout(() => { throw new Error('later'); });",
        'await new Promise(() => {});',
      ),
    ).toEqual(['Error: later\n    in line 1']);
    const lines = await says(
      "import { init } from 'shardwise';",
      'const { rank, group } = await init();',
      "if (rank === 1) throw new Error('here');",
      'await group.barrier();',
    );
    expect(lines).toContain('[rank 1] Error: here\n    in line 3');
    expect(lines.filter((line) => line.includes('rank 1 of the world ended'))).toHaveLength(1);
    await page.close();
  });

  test('a program is shared by its link', async () => {
    const { page } = await site.open('/explore/playground');
    await page.locator('.cm-content').fill("console.log('by a link');");
    await page.getByRole('button', { name: 'Share' }).click();
    await page.waitForURL(/#code=/);
    const { page: other } = await site.open(
      new URL(page.url()).pathname + new URL(page.url()).hash,
    );
    await other.getByRole('button', { name: 'Run', exact: true }).click();
    await other.locator('.output', { hasText: 'by a link' }).waitFor();
    await page.close();
    await other.close();
  });

  test('on a host that cannot isolate pages, a service worker does', async () => {
    await using plain = await serveSite({ isolated: false });
    const { page } = await site.open(`${plain.url}/explore/training`);
    await page.waitForFunction(() => globalThis.crossOriginIsolated);
    await page.getByLabel('Ranks', { exact: true }).selectOption('2');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    expect(await page.locator('.setting').textContent()).toContain('by shared memory');
    await page.close();
  });

  test('where no service worker runs either, ranks train over ports, and the page says so before', async () => {
    await using plain = await serveSite({ isolated: false });
    const { page } = await site.open(`${plain.url}/explore/training`, { serviceWorkers: 'block' });
    await page.locator('.ports-notice', { hasText: 'takes longer' }).waitFor();
    await page.getByLabel('Ranks', { exact: true }).selectOption('2');
    await page.getByRole('button', { name: 'Step', exact: true }).click();
    await page.locator('.summary', { hasText: 'Paused: 1 of' }).waitFor();
    expect(await page.locator('.setting').last().textContent()).toContain('by message ports');
    await page.close();
  });

  test('the benchmark measures products, a training and an all-reduce, beside published figures, and reports them', async () => {
    const { page, problems } = await site.open('/explore/benchmark');
    const measure = page.getByRole('button', { name: 'Measure' });
    await measure.click();
    await page.getByRole('button', { name: 'Stop' }).click();
    expect(await page.locator('.summary').textContent()).toBe('Stopped.');
    await measure.click();
    await page.locator('.summary', { hasText: /^Done/ }).waitFor({ timeout: 300_000 });
    const own = async (caption: RegExp): Promise<string[][]> =>
      (await rowsOf(page, caption)).filter(([by]) => by?.startsWith('this device'));
    const [[, ...products] = []] = await own(/^Product/);
    expect(products).toEqual([...[0, 1, 2].map(() => expect.stringMatching(/^\d+\.\d$/)), 'now']);
    const trainings = await own(/^Training/);
    expect(trainings.map(([by]) => by)).toEqual([
      expect.stringContaining('one rank'),
      expect.stringContaining('2 ranks with DDP'),
    ]);
    for (const [, tokens] of trainings) expect(tokens).toMatch(/^\d+$/);
    const [[, ...reduced] = []] = await own(/^All-reduce/);
    for (const time of reduced.slice(0, 3)) expect(time).toMatch(/s, \d+\.\d GB\/s$/);
    await page.getByText('The report', { exact: true }).click();
    const report = await page.locator('pre[aria-label="The report"]').innerText();
    expect(report).toMatch(/^Shardwise in a page, \d{4}-\d\d-\d\d\n.*Chrome/);
    expect(report.match(/GFLOP\/s|tokens\/s|GB\/s/g)).toHaveLength(8);
    expect(problems).toEqual([]);
    await page.close();
  }, 400_000);
});
