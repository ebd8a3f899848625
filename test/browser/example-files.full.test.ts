import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import { describeExample } from './describe-example.ts';

const minute = 60_000;
// The run is long because checkpoints are written in the background, and half of the run must take longer than that.
const steps = 40;
const half = steps / 2;
const ownText = 'the cat sat on the mat, the dog lay on the log. für Bäume\n'.repeat(8);

describeExample('the page of examples/browser and its files', (open) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardwise-example-checkpoints-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Records the losses that the page shows from now on, by update. */
  const watchLosses = async (page: Page): Promise<() => Promise<Record<string, string>>> => {
    await page.evaluate(() => {
      const shown: Record<string, string> = {};
      const [step, loss] = ['step', 'loss'].map((id) => document.getElementById(id));
      new MutationObserver(() => {
        const update = step?.textContent?.split(' ')[0] ?? '';
        if (/^\d+$/.test(update)) shown[update] = loss?.textContent ?? '';
      }).observe(loss ?? document.body, { childList: true, characterData: true, subtree: true });
      Object.assign(globalThis, { shown });
    });
    return () => page.evaluate(() => ({ ...Reflect.get(globalThis, 'shown') }));
  };

  const train = async (page: Page, status = 'Done.'): Promise<void> => {
    await page.locator('#train').click();
    await page.locator('#train:disabled').waitFor();
    await page.locator('#train:enabled').waitFor({ timeout: 2 * minute });
    expect(await page.textContent('#status')).toBe(status);
  };

  const fill = async (page: Page, saveEvery: number): Promise<void> => {
    await page.locator('#text').fill(ownText);
    await page.locator('#steps').fill(String(steps));
    await page.locator('#save-every').fill(String(saveEvery));
  };

  /** Returns the losses that an undisturbed run shows. It saves nothing. */
  const undisturbed = async (page: Page): Promise<Record<string, string>> => {
    await fill(page, 0);
    const losses = await watchLosses(page);
    await train(page);
    expect(await page.locator('#checkpoint-list li').count()).toBe(0);
    return losses();
  };

  const from = (losses: Record<string, string>, first: number): Record<string, string> =>
    Object.fromEntries(Object.entries(losses).filter(([step]) => Number(step) >= first));

  it(
    'goes on from a checkpoint after it is loaded again, by keyboard alone, as if nothing had happened, and as a file on other ranks',
    { timeout: 5 * minute },
    async () => {
      const path = join(folder, 'picked.tar');
      let expected: Record<string, string> = {};
      await open({ path: '', width: 1200 }, async (page) => {
        expected = await undisturbed(page);
        expect(Object.keys(expected)).toHaveLength(steps);

        // The page is loaded again as soon as half of the updates are saved, which interrupts the run.
        await fill(page, half);
        await page.locator('#steps').fill('5000');
        await page.locator('#train').click();
        await expect
          .poll(() => page.textContent('#checkpoint-news'), { timeout: minute })
          .toMatch(/^Update \d+ is saved\.$/);
        await page.reload();
        const row = page.locator('#checkpoint-list li');
        await row.waitFor();
        expect(await row.textContent()).toMatch(/^Run of .*: update \d+ of 5000/);
        await row.getByRole('button', { name: 'Remove' }).press('Enter');
        await expect.poll(() => row.count()).toBe(0);
        expect(await page.evaluate(() => document.activeElement?.id)).toBe('checkpoints-title');

        // The run has the same length, and half of it is done.
        await fill(page, half);
        const first = await watchLosses(page);
        await page.evaluate(() => {
          const status = document.getElementById('checkpoint-news');
          new MutationObserver(() => document.getElementById('end')?.click()).observe(
            status ?? document.body,
            { childList: true },
          );
        });
        await train(page, 'Ended at once.');
        expect(from(expected, 1)).toMatchObject(await first());
        await page.reload();
        expect(await page.inputValue('#text')).not.toBe(ownText);
        await row.getByRole('button', { name: /^Go on from the run of / }).press('Enter');
        expect(await page.inputValue('#text')).toBe(ownText);
        expect(await page.inputValue('#steps')).toBe(String(steps));
        expect(await page.textContent('#origin')).toContain(
          `It goes on after update ${half} of the run`,
        );
        expect(await page.locator('#size').isDisabled()).toBe(true);
        expect(await page.evaluate(() => document.activeElement?.textContent)).toBe(
          `Go on after update ${half}`,
        );
        const download = page.waitForEvent('download');
        await row.getByRole('button', { name: /^Download the run of / }).press('Enter');
        const file = await download;
        expect(file.suggestedFilename()).toBe(`step-0000${half}.tar`);
        await file.saveAs(path);
        const losses = await watchLosses(page);
        await train(page);
        expect(await losses()).toEqual(from(expected, half + 1));
        await expect
          .poll(() => row.allTextContents())
          .toEqual([
            expect.stringMatching(`: update ${steps} of ${steps}`),
            expect.stringMatching(`: update ${half} of ${steps}`),
          ]);
      });
      await open({ path: '', width: 360 }, async (page) => {
        const pick = page.locator('#checkpoint-file');
        await pick.setInputFiles({
          name: 'words.tar',
          mimeType: 'application/x-tar',
          buffer: Buffer.from('words'),
        });
        await expect
          .poll(() => page.textContent('#checkpoint-news'))
          .toMatch(/^words\.tar as an archive \(\.tar\) with a checkpoint: 5 bytes/);
        await pick.setInputFiles(path);
        await expect
          .poll(() => page.textContent('#origin'))
          .toBe(`It goes on after update ${half} of picked.tar.`);
        expect(await page.inputValue('#text')).toBe(ownText);
        await page.locator('#ranks').selectOption('1');
        const losses = await watchLosses(page);
        await train(page);
        const found = await losses();
        expect(Object.keys(found)).toEqual(Object.keys(from(expected, half + 1)));
        for (const [step, loss] of Object.entries(found)) {
          expect(Number(loss)).toBeCloseTo(Number(expected[step]), 2);
        }
        await page.getByRole('button', { name: 'Begin with new weights' }).click();
        expect(await page.textContent('#train')).toBe('Train');
        expect(await page.locator('#size').isEnabled()).toBe(true);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
      });
    },
  );

  it(
    'trains without checkpoints where the browser keeps nothing for it, and says so',
    { timeout: minute },
    async () => {
      await open({ path: '', width: 360 }, async (page) => {
        await page.addInitScript(() => {
          StorageManager.prototype.getDirectory = () =>
            Promise.reject(new DOMException('not in this window', 'SecurityError'));
        });
        await page.reload();
        await expect
          .poll(() => page.textContent('#checkpoint-news'))
          .toBe('This browser keeps no checkpoints of this page: not in this window');
        expect(await page.locator('#save-every').isDisabled()).toBe(true);
        await page.locator('#text').fill(ownText);
        await page.locator('#ranks').selectOption('1');
        await page.locator('#steps').fill('1');
        await train(page);
      });
    },
  );

  it('takes text files, and says why it does not take another', { timeout: minute }, () =>
    open({ path: '', width: 360 }, async (page) => {
      const pick = async (...files: (readonly [name: string, buffer: Buffer])[]) => {
        const picked = files.map(([name, buffer]) => ({ name, mimeType: 'text/plain', buffer }));
        // Clearing the text makes sure that the next text is about these files.
        await page.locator('#status').evaluate((status) => (status.textContent = ''));
        await page.locator('#file').setInputFiles(picked);
        await expect.poll(() => page.textContent('#status')).toContain(files[0]?.[0]);
        return page.textContent('#status');
      };
      const before = await page.inputValue('#text');
      const words = ['words.txt', Buffer.from('words für Bäume')] as const;
      expect(await pick(['empty.txt', Buffer.alloc(0)])).toContain('is empty');
      expect(await pick(['large.txt', Buffer.alloc(4e6 + 1, 'a')])).toContain('4,000,001 bytes');
      expect(await pick(['half.txt', Buffer.alloc(4e6, 'a')], words)).toContain('4,000,017 bytes');
      expect(await pick(['binary.txt', Buffer.of(0xff, 0xfe, 0x00)])).toContain('no text in UTF-8');
      expect(await pick(['wide.txt', Buffer.from('ab', 'utf16le')])).toContain('no text in UTF-8');
      expect(await pick(['zeros.bin', Buffer.alloc(9)], words)).toContain('the text of zeros.bin:');
      expect(await page.inputValue('#text')).toBe(before);
      expect(await pick(words)).toBe('The text is that of words.txt.');
      expect(await page.inputValue('#text')).toBe('words für Bäume');
      expect(await pick(words, ['more.md', Buffer.from('and more')])).toBe(
        'The text is that of words.txt and more.md.',
      );
      expect(await page.inputValue('#text')).toBe('words für Bäume\nand more');
    }),
  );
});
