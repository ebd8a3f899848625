import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { data, manualSeed, setRank } from '@shardwise/core';
import { byteTokenizer, causalLanguageModelCollate, tensorsOf } from '@shardwise/data';
import { saveTokenizer } from '@shardwise/data/node';
import {
  BertForMaskedLM,
  generate,
  LlamaForCausalLM,
  loadAdapter,
  type PretrainedModel,
} from '@shardwise/models';
import { fromPretrained, readAdapter, savePretrained } from '@shardwise/models/node';
import { interpreter } from '@shardwise/testing';
import type { Download, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeExample } from './describe-example.ts';

const minute = 60_000;
const tokenizer = byteTokenizer();
const prompt = 'a cat';
/** What a page learns. */
const texts = ['a cat sat.', 'no dog ran'];
const [steps, rate] = [60, 0.02];

describeExample('the page of examples/browser that opens a model', (open) => {
  const folder = mkdtempSync(join(tmpdir(), 'shardwise-example-model-'));
  const llama = join(folder, 'small-llama');
  const bert = join(folder, 'small-bert');
  const wrong = join(folder, 'wrong');
  const cut = join(folder, 'cut');
  let expected = '';
  let firstLoss = 0;

  beforeAll(async () => {
    setRank({ device: interpreter() });
    manualSeed(3);
    const sizes = { vocabSize: tokenizer.vocabularySize, hiddenSize: 16, intermediateSize: 32 };
    const layers = { numHiddenLayers: 1, numAttentionHeads: 2, maxPositionEmbeddings: 64 };
    const model = new LlamaForCausalLM({ ...sizes, ...layers, initializerRange: 0.5 });
    await savePretrained(model, llama);
    await saveTokenizer(tokenizer, llama);
    await savePretrained(new BertForMaskedLM({ ...sizes, ...layers }), bert);
    await saveTokenizer(tokenizer, bert);
    mkdirSync(wrong);
    writeFileSync(join(wrong, 'notes.txt'), 'no model');
    await savePretrained(model, cut);
    const ids = tokenizer.encode(prompt).inputIds;
    const [row = []] = await generate(model, [ids], { maxNewTokens: 12 });
    expected = tokenizer.decode(row, { skipSpecialTokens: true });
    const samples = texts.map((text) => {
      const inputIds = [...tokenizer.encode(text).inputIds, tokenizer.eosTokenId ?? expect.fail()];
      return { inputIds: data.ndArray(Int32Array.from(inputIds)) };
    });
    const { padTokenId = 0 } = tokenizer;
    const batch = causalLanguageModelCollate({ padTokenId })(samples);
    const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
    firstLoss = await model.forward(inputIds, call).item();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const pick = async (page: Page, path: string, says: RegExp): Promise<void> => {
    await page.locator('#folder').setInputFiles(path);
    await expect.poll(() => page.textContent('#status'), { timeout: minute }).toMatch(says);
  };
  const writtenBy = async (model: PretrainedModel): Promise<string> => {
    const [row = []] = await generate(model, [tokenizer.encode('a').inputIds], {
      maxNewTokens: 12,
    });
    return tokenizer.decode(row, { skipSpecialTokens: true });
  };
  const write = async (page: Page): Promise<string | null> => {
    await page.locator('#write').click();
    await page.locator('#write:enabled').waitFor();
    return page.textContent('#status');
  };

  it(
    'says what a folder has, and writes what the model writes in Node',
    { timeout: 4 * minute },
    () =>
      open({ path: 'model.html', width: 1200 }, async (page) => {
        expect(await page.locator('#write').isDisabled()).toBe(true);
        await pick(page, llama, /^small-llama is open\.$/);
        const facts = await page.locator('#facts div').allTextContents();
        expect(facts).toContain('ClassLlamaForCausalLM');
        expect(facts).toContain('Vocabulary260 tokens');
        await page.locator('#prompt').fill(prompt);
        await page.locator('#tokens').fill('12');
        await page.locator('#chat').uncheck();
        expect(await write(page)).toBe('Done.');
        expect(await page.textContent('#sample')).toBe(expected);
        expect(await page.textContent('#speed')).toMatch(/^\d+ new tokens, \d+\.\d a second$/);

        // A chat model gets the message in its template, and only its answer is shown.
        await page.locator('#chat').check();
        await page.locator('#temperature').fill('0.8');
        expect(await write(page)).toBe('Done.');
        expect(await page.textContent('#sample')).not.toContain(prompt);

        // The model stays open after a prompt that is too long for it.
        await page.locator('#tokens').fill('100');
        expect(await write(page)).toMatch(/64/);
        await page.locator('#tokens').fill('2');
        expect(await write(page)).toBe('Done.');

        await page.locator('#close').click();
        await expect.poll(() => page.textContent('#status')).toBe('The model is closed.');
        expect(await page.locator('#write').isDisabled()).toBe(true);
      }),
  );

  it(
    'trains an adapter on texts as Node does, writes with it, and saves it as PEFT has it',
    { timeout: 4 * minute },
    () =>
      open({ path: 'model.html', width: 360 }, async (page) => {
        expect(await page.locator('#train').isDisabled()).toBe(true);
        await pick(page, llama, /^small-llama is open\.$/);
        await page.locator('#chat').uncheck();
        await page.locator('#texts').fill(`${texts.join('\n')}\n\n`);
        await page.locator('#steps').fill(String(steps));
        await page.locator('#rate').fill(String(rate));
        await page.locator('#train').click();
        await page.locator('#train:enabled').waitFor();
        const [, first, last] =
          /^The loss went from ([\d.]+) to ([\d.]+)\.$/.exec(
            (await page.textContent('#status')) ?? '',
          ) ?? [];
        // B of the adapter begins as zero: the first loss is that of the model, and A is drawn anew in each page.
        expect(Number(first)).toBeCloseTo(firstLoss, 2);
        expect(Number(last)).toBeLessThan(0.5 * firstLoss);

        const files: Download[] = [];
        page.on('download', (file) => files.push(file));
        await page.locator('#save').click();
        await expect.poll(() => files.length, { timeout: minute }).toBe(2);
        const adapter = join(folder, 'adapter');
        mkdirSync(adapter, { recursive: true });
        for (const file of files) await file.saveAs(join(adapter, file.suggestedFilename()));

        // The files have what the page writes with.
        await page.locator('#prompt').fill('a');
        await page.locator('#tokens').fill('12');
        expect(await write(page)).toBe('Done.');
        const model = await fromPretrained(llama);
        await loadAdapter(model, await readAdapter(adapter));
        const written = await writtenBy(model);
        expect(await page.textContent('#sample')).toBe(written);
        expect(written).not.toBe(await writtenBy(await fromPretrained(llama)));

        await page.locator('#texts').fill('a'.repeat(100));
        await page.locator('#train').click();
        await expect.poll(() => page.textContent('#status')).toMatch(/101 tokens.*reads 64/);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
      }),
  );

  it(
    'says why it cannot open another folder, and then opens the right one',
    { timeout: 4 * minute },
    () =>
      open({ path: 'model.html', width: 360 }, async (page) => {
        await pick(page, wrong, /^wrong cannot be opened: .*no config\.json in it/);
        expect(await page.locator('#status').getAttribute('class')).toContain('failed');
        await pick(page, cut, /^cut cannot be opened: .*tokenizer\.json: no such file/);
        await pick(page, bert, /^small-bert is open\.$/);
        await page.locator('#tokens').fill('2');
        expect(await write(page)).toMatch(/an encoder, in which each token sees the later ones/);
        await page.locator('#texts').fill('a cat');
        await page.locator('#train').click();
        await expect
          .poll(() => page.textContent('#status'))
          .toBe('A BertForMaskedLM does not learn to continue texts.');
        await page.locator('#close').click();
        await page.locator('#folder:enabled').waitFor();
        await pick(page, llama, /^small-llama is open\.$/);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
      }),
  );
});
