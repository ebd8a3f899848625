// The rank of model.html. It opens the folder that the visitor has picked. Then it continues prompts, and trains an adapter
// on texts, until the page ends it.
import { causalLanguageModelCollate, loadTokenizer, tensorsOf } from '@shardwise/data';
import {
  adapterFiles,
  addLora,
  fromPretrained,
  pickedFolder,
  streamTokens,
} from '@shardwise/models';
import { data, init, manualSeed, optim } from 'shardwise/browser';
import {
  type Lessons,
  type ModelNews,
  type Order,
  parseOpening,
  parseOrder,
  type Prompt,
} from './model-message.ts';

const context = await init();
const tell = (news: ModelNews): void => context.send(news);
const { files, channel } = parseOpening(context.data);
const folder = pickedFolder(files);
const model = await fromPretrained(folder);
const tokenizer = await loadTokenizer(folder);
manualSeed(Date.now() % 2 ** 32);

const count = model.parameters().reduce((sum, { numel }) => sum + numel, 0);
const asks = new BroadcastChannel(channel);
/** One order after another. */
let working = Promise.resolve();
asks.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
  working = working.then(() => follow(parseOrder(data)));
});
/** Rows of one update. */
const BATCH = 4;
let hasAdapter = false;
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

async function follow(order: Order): Promise<void> {
  try {
    if (order.kind === 'write') await write(order.prompt);
    else if (order.kind === 'train') await train(order.lessons);
    else await tellAdapter();
  } catch (error) {
    tell({ kind: 'refused', message: error instanceof Error ? error.message : String(error) });
  }
}

async function write({ text, maxNewTokens, temperature, isMessage }: Prompt): Promise<void> {
  const began = performance.now();
  let tokens = 0;
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
}

/** Trains an adapter (LoRA) on texts, each of which ends with the token that ends a text. */
async function train({ texts, steps, learningRate }: Lessons): Promise<void> {
  if (!/(ForCausalLM|LMHeadModel)$/.test(model.architecture)) {
    throw new TypeError(`A ${model.architecture} does not learn to continue texts.`);
  }
  const samples = texts.map((text) => {
    const end = tokenizer.eosTokenId === undefined ? [] : [tokenizer.eosTokenId];
    return { inputIds: idsOf([...tokenizer.encode(text).inputIds, ...end]) };
  });
  const longest = Math.max(...samples.map(({ inputIds }) => inputIds.data.length));
  if (longest > contextLength()) {
    throw new RangeError(`A text has ${longest} tokens, and the model reads ${contextLength()}.`);
  }
  if (!hasAdapter) addLora(model, { rank: 8, alpha: 16, targetModules: 'all-linear' });
  hasAdapter = true;
  const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
  const optimizer = new optim.AdamW(trained, { lr: learningRate });
  const collate = causalLanguageModelCollate({
    padTokenId: tokenizer.padTokenId ?? tokenizer.eosTokenId ?? 0,
  });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    const rows = Array.from(
      { length: Math.min(BATCH, samples.length) },
      (_, row) => samples[(step * BATCH + row) % samples.length] ?? { inputIds: idsOf([]) },
    );
    optimizer.zeroGrad();
    const batch = tensorsOf(collate(rows), 'inputIds', 'attentionMask', 'labels');
    const { inputIds, ...call } = batch;
    const loss = model.forward(inputIds, call);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
    tell({ kind: 'learned', step: step + 1, steps, loss: losses.at(-1) ?? NaN });
  }
  tell({ kind: 'trained', first: losses[0] ?? NaN, last: losses.at(-1) ?? NaN });
}

function idsOf(ids: readonly number[]): data.NDArray<'i32'> {
  return data.ndArray(Int32Array.from(ids));
}

async function tellAdapter(): Promise<void> {
  const { config, tensors } = await adapterFiles(model);
  tell({ kind: 'adapter', config: JSON.stringify(config, null, 2), tensors: tensors.slice() });
}

/** The most tokens that the model reads. */
function contextLength(): number {
  const { config } = model;
  const found: unknown =
    Reflect.get(config, 'maxPositionEmbeddings') ?? Reflect.get(config, 'nPositions');
  return typeof found === 'number' ? found : Infinity;
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
