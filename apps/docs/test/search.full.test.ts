import { globSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import MiniSearch from 'minisearch';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { keywords } from '../.vitepress/search-keywords.ts';
import { miniSearch } from '../.vitepress/search.ts';
import { built } from '../.vitepress/serve-site.ts';
import { buildSite } from './site/build-site.ts';

let index: MiniSearch;

beforeAll(async () => {
  await buildSite();
  const [file = ''] = globSync('assets/chunks/@localSearchIndexroot.*.js', { cwd: built });
  const loaded: unknown = await import(/* @vite-ignore */ pathToFileURL(join(built, file)).href);
  const { default: json } = z.object({ default: z.string() }).parse(loaded);
  index = MiniSearch.loadJSON(json, {
    fields: miniSearch.options.fields,
    storeFields: ['title', 'titles'],
    searchOptions: miniSearch.searchOptions,
  });
}, 300_000);

/** Returns the addresses of the first results of a search. */
function resultsOf(words: string, count: number): readonly string[] {
  return index
    .search(words)
    .slice(0, count)
    .map(({ id }) => String(id));
}

describe('the search', () => {
  test('has a section for each address that has words of its own', () => {
    const ids = index.search(MiniSearch.wildcard).map(({ id }) => String(id));
    const sections = new Set(ids.flatMap((id) => [id, id.replace(/#.*$/, '')]));
    expect(Object.keys(keywords).filter((address) => !sections.has(address))).toEqual([]);
  });

  // The page or section that must be among the first three results.
  test.each([
    ['gradient clipping', '/reference/optim/gradients'],
    ['clip grad norm', '/reference/optim/gradients#clipgradnorm'],
    ['fine-tune', '/guides/fine-tune'],
    ['finetuning', '/reference/checkpoints#loadmodel'],
    ['save model', '/reference/checkpoints'],
    ['load model', '/reference/checkpoints#loadmodel'],
    ['hugging face', '/reference/checkpoints#loadmodel'],
    ['pretrained weights', '/guides/fine-tune'],
    ['safetensors', '/reference/checkpoints/files'],
    ['export', '/reference/checkpoints/files#exportmodel'],
    ['resume training', '/learn/checkpoints'],
    ['out of memory', '/guides/memory'],
    ['OOM', '/guides/memory'],
    ['gradient checkpointing', '/guides/memory'],
    ['gradient accumulation', '/guides/memory'],
    ['torchrun', '/guides/launch'],
    ['slurm', '/guides/launch'],
    ['several machines', '/learn/cluster'],
    ['deadlock', '/guides/debugging'],
    ['hang', '/guides/debugging'],
    ['slow', '/guides/slow-steps'],
    ['pytorch', '/guides/from-pytorch'],
    ['deepspeed', '/guides/from-deepspeed'],
    ['tensorflow', '/guides/from-tensorflow-js'],
    ['getting started', '/learn/one-rank'],
    ['learning rate', '/reference/optim/schedulers'],
    ['cosine schedule', '/reference/optim/schedulers#cosineschedule'],
    ['warmup', '/reference/optim/schedulers'],
    ['cross entropy', '/reference/nn/functional-losses#crossentropy'],
    ['dataloader', '/reference/data/loader'],
    ['mixed precision', '/how-it-works/mixed-precision'],
    ['tensor parallel', '/learn/tensor-parallel'],
    ['random seed', '/reference/random#manualseed'],
    ['environment variables', '/reference/environment'],
    ['webgpu', '/reference/backends#webgpu'],
    ['browser support', '/reference/browsers'],
  ])('for %s finds %s among the first three', (words, expected) => {
    const found = resultsOf(words, 3);
    expect(found.filter((id) => id === expected || id.startsWith(`${expected}#`))).not.toEqual([]);
  });

  test.each([
    ['Linear', '/reference/nn/linear#linear'],
    ['crossEntropy', '/reference/nn/functional-losses#crossentropy'],
    ['clipGradNorm', '/reference/optim/gradients#clipgradnorm'],
    ['AdamW', '/reference/optim/optimizers#adamw'],
    ['fsdp', '/reference/fsdp#fsdp'],
    ['planFor', '/reference/parallelize#planfor'],
    ['manualSeed', '/reference/random#manualseed'],
    ['DataLoader', '/reference/data/loader#dataloader'],
    ['reshape', '/reference/tensor/shapes#tensor-reshape'],
    ['loadStateDict', '/reference/nn/module#module-loadstatedict'],
  ])('for the exact name %s finds %s first', (words, expected) => {
    expect(resultsOf(words, 1)).toEqual([expected]);
  });
});
