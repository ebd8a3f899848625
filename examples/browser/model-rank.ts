// The rank of model.html. It opens the folder that the visitor has picked, and continues prompts until the page ends it.
import { loadTokenizer } from '@shardwise/data';
import { fromPretrained, pickedFolder, streamTokens } from '@shardwise/models';
import { init, manualSeed } from 'shardwise/browser';
import { type ModelNews, parseOpening, parsePrompt, type Prompt } from './model-message.ts';

const context = await init();
const tell = (news: ModelNews): void => context.send(news);
const { files, channel } = parseOpening(context.data);
const folder = pickedFolder(files);
const model = await fromPretrained(folder);
const tokenizer = await loadTokenizer(folder);
manualSeed(Date.now() % 2 ** 32);

const count = model.parameters().reduce((sum, { numel }) => sum + numel, 0);
const asks = new BroadcastChannel(channel);
/** One prompt after another. */
let writing = Promise.resolve();
asks.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
  writing = writing.then(() => write(parsePrompt(data)));
});
tell({
  kind: 'opened',
  facts: {
    Class: model.architecture,
    Parameters: count.toLocaleString('en'),
    Vocabulary: `${tokenizer.vocabularySize.toLocaleString('en')} tokens`,
    Files: `${(files.reduce((sum, { size }) => sum + size, 0) / 1e6).toFixed(1)} MB`,
  },
  hasChatTemplate: hasChatTemplate(),
});

async function write({ text, maxNewTokens, temperature, isMessage }: Prompt): Promise<void> {
  const began = performance.now();
  let tokens = 0;
  try {
    const ids = isMessage
      ? tokenizer.encode(asMessage(text), { addSpecialTokens: false }).inputIds
      : tokenizer.encode(text).inputIds;
    const draws = temperature === 0 ? {} : { doSample: true, temperature };
    const stream = tokenizer.decodeStream({ skipSpecialTokens: true });
    for await (const [token] of streamTokens(model, [ids], { maxNewTokens, ...draws })) {
      if (typeof token !== 'number') continue;
      tokens++;
      tell({ kind: 'text', text: stream.push(token) });
    }
    tell({ kind: 'text', text: stream.end() });
    tell({ kind: 'written', tokens, milliseconds: performance.now() - began });
  } catch (error) {
    tell({ kind: 'refused', message: error instanceof Error ? error.message : String(error) });
  }
}

function asMessage(content: string): string {
  return tokenizer.applyChatTemplate([{ role: 'user', content }], { addGenerationPrompt: true });
}

function hasChatTemplate(): boolean {
  try {
    return asMessage('a') !== '';
  } catch {
    return false;
  }
}
