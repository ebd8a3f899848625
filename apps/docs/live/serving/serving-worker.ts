// Trains a small GPT-2 on a text, and then answers the requests of the page with it, all in one rolling batch.
import { fromData, Generator, manualSeed, nn, optim, setRank, type Tensor } from '@shardwise/core';
import type { Backend } from '@shardwise/core/spec';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import { Engine } from '@shardwise/serve';
import { chooseDevice } from 'shardwise/browser';
import { firstText } from '../language/first-text.ts';
import {
  BLOCK_SIZE,
  BLOCKS,
  CONTEXT,
  type ServedText,
  type ServingNews,
  type ServingOrder,
} from './serving-messages.ts';

const ROWS = 8;
const LEARNING_RATE = 4e-3;
/** Ended requests that the page still shows. */
const SHOWN_TEXTS = 8;

type Begin = Extract<ServingOrder, { kind: 'begin' }>;

interface Request extends ServedText {
  readonly abort: AbortController;
}

const post = (news: ServingNews): void => globalThis.postMessage(news);
const tokenizer = byteTokenizer();
const requests = new Map<number, Request>();
let pauseMs = 0;
let engine: Engine | undefined;

/** Loads only the backend that is used. */
async function deviceOf(asked: Begin['device']): Promise<[Backend, string]> {
  const { kind } = await chooseDevice(asked, 1);
  if (kind === 'webgpu') {
    const { webgpu } = await import('@shardwise/backend-webgpu');
    return [await webgpu(), 'WebGPU'];
  }
  const { wasm } = await import('@shardwise/backend-cpu/wasm');
  return [await wasm({ byteLength: 128 << 20 }), 'WebAssembly'];
}

async function train(device: string, steps: number): Promise<GPT2LMHeadModel> {
  manualSeed(1);
  const config = { vocabSize: 260, nPositions: CONTEXT, nEmbd: 64, nLayer: 2, nHead: 4 };
  const dropout = { residPdrop: 0, embdPdrop: 0, attnPdrop: 0 };
  const model = new GPT2LMHeadModel({ ...config, ...dropout });
  const optimizer = new optim.AdamW(model.parameters(), { lr: LEARNING_RATE });
  const rate = optim.cosineSchedule(steps, 0.05);
  const text = tokenizer.encode(firstText, { addSpecialTokens: false }).inputIds;
  for (let step = 1; step <= steps; step++) {
    for (const group of optimizer.paramGroups) group.lr = LEARNING_RATE * rate(step);
    const rows = Array.from(new Generator(step).rand(ROWS), (share) => {
      const first = Math.floor(share * (text.length - CONTEXT));
      return text.slice(first, first + CONTEXT + 1);
    });
    const logits = model.forward(tensorOf(rows.map((row) => row.slice(0, -1))), {});
    const targets = tensorOf(rows.map((row) => row.slice(1)));
    const loss = nn.functional.crossEntropy(logits.flatten(0, 1), targets.flatten());
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    post({ kind: 'training', device, step, loss: await loss.item() });
  }
  return model;
}

/** Shape: -> i32 [B, T]. */
function tensorOf(rows: readonly (readonly number[])[]): Tensor {
  return fromData(Int32Array.from(rows.flat()), [rows.length, rows[0]?.length ?? 0], 'i32');
}

function show(): void {
  if (engine === undefined) return;
  const texts = [...requests.values()].map(({ abort: _, ...text }) => text);
  post({ kind: 'serving', cache: engine.cacheState, statistics: engine.statistics, texts });
}

async function answer(own: Engine, id: number, prompt: string, seed: number): Promise<void> {
  const abort = new AbortController();
  const places = CONTEXT - tokenizer.encode(prompt).inputIds.length;
  const tokens = own.generate({
    prompt,
    seed,
    temperature: 0.5,
    maxNewTokens: Math.max(1, places),
    signal: abort.signal,
  });
  const sequence = Math.max(...own.cacheState.sequences.map(({ number }) => number));
  let request: Request = { id, sequence, prompt, text: '', isOver: false, abort };
  requests.set(id, request);
  try {
    for await (const { text } of tokens) {
      request = { ...request, text: request.text + text };
      requests.set(id, request);
    }
  } catch (error) {
    if (!abort.signal.aborted) throw error;
  } finally {
    requests.set(id, { ...request, isOver: true });
    const over = [...requests.values()].filter(({ isOver }) => isOver);
    for (const old of over.slice(0, -SHOWN_TEXTS)) requests.delete(old.id);
    show();
  }
}

async function begin({ device: asked, steps }: Begin): Promise<void> {
  const [device, name] = await deviceOf(asked);
  setRank({ device });
  const model = await train(name, steps);
  engine = new Engine(model, tokenizer, {
    blockSize: BLOCK_SIZE,
    cacheTokens: BLOCKS * BLOCK_SIZE,
    maxChunkTokens: 16,
    // The page draws what the step before did, and its orders arrive.
    beforeStep: async () => {
      show();
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    },
  });
  show();
}

function fail(error: unknown): void {
  post({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
}

globalThis.addEventListener('message', ({ data }: MessageEvent<ServingOrder>) => {
  switch (data.kind) {
    case 'begin':
      begin(data).catch(fail);
      return;
    case 'ask':
      if (engine !== undefined) answer(engine, data.id, data.prompt, data.seed).catch(fail);
      return;
    case 'cancel':
      requests.get(data.id)?.abort.abort();
      return;
    case 'pace':
      pauseMs = data.pauseMs;
      return;
    default:
      data satisfies never;
  }
});
