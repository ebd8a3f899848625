import { readFileSync } from 'node:fs';
import { data } from 'shardwise';
import { readTextLines, Stream, type TokenRows, Tokenizer } from '@shardwise/data';
import { fileBytes } from '@shardwise/data/node';

/** Byte-level BPE, as of GPT-2, with a vocabulary that a small model can have. */
export function benchTokenizer(): Tokenizer {
  const file = '../../packages/data/test/golden/tokenizers/byte-level.json';
  return Tokenizer.fromJson(JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8')));
}

/** Batches of packed tokens of a text file. Shape: inputIds, labels, documents, positionIds [B, T]. */
export async function tokenBatches(
  path: string,
  { batch, contextLength }: { readonly batch: number; readonly contextLength: number },
): Promise<Stream<TokenRows>> {
  const tokenizer = benchTokenizer();
  const lines = await readTextLines(await fileBytes(path));
  const documents = Stream.ofRows(lines, { shuffle: true }).map((line): TokenRows => ({
    inputIds: data.ndArray(Int32Array.from(tokenizer.encode(line).inputIds)),
  }));
  return Stream.pack(documents, { contextLength, padTokenId: 0 })
    .batch(batch, { dropLast: true })
    .map((rows) => data.collate(rows));
}
