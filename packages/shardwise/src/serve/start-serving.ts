import { ConfigError, OutOfMemoryError } from '@shardwise/core/spec';
import { BertModel, CausalDecoder, GPT2LMHeadModel, RobertaModel } from '@shardwise/models';
import { complete, Engine } from '@shardwise/serve';
import { listen, type ListeningServer, openAIApp, type ServedModel } from '@shardwise/serve/node';
import { formatBytes } from '../text/format.ts';
import { apiKeysOf } from './api-keys.ts';
import { cannotListen } from './cannot-listen.ts';
import { enterGroup, type GroupPlace } from './enter-group.ts';
import { CheckpointFollower } from './follow-checkpoints.ts';
import { EncoderEmbedder } from './text-embedder.ts';
import { openModel, type OpenedModel } from './open-model.ts';
import { readPooling } from './read-pooling.ts';
import { requireWholeBlocks } from './require-whole-blocks.ts';
import type { ServeOptions } from './serve-options.ts';

/**
 * A step with a chunk of a prompt takes at most about so many times as long as one without. With some variation, 99 % of the
 * times between tokens are then below three times their median.
 */
const MAX_STEP_RATIO = 2.5;

/** A model that answers requests. */
export interface Serving {
  readonly server: ListeningServer;
  /** What answers, and where. */
  readonly summary: string;
  /** The number of texts that are being made, or wait. */
  readonly open: number;
  /** Frees the memory, after `server.close`. */
  dispose(): Promise<void>;
}

/** A model that is ready, and the end of the line about it. */
interface ReadyModel extends Omit<ServedModel, 'id'> {
  readonly description: string;
}

/**
 * Loads a model and listens, alone or as the first rank of a group. Each part is used once before, so that what cannot work is an error now. Throws ConfigError
 * for options that contradict each other, a model that is not there, one that makes neither texts nor embeddings, blocks
 * that do not fit the memory, and an address that cannot be used, and the errors of openModel. A checkpoint that cannot be
 * taken is no error: a line says why.
 */
export async function startServing(
  options: ServeOptions,
  group: GroupPlace | null = null,
): Promise<Serving> {
  const { host, port, maxWaiting, requestTimeoutMs } = options;
  const apiKeys = apiKeysOf(options, process.env);
  requireWholeBlocks(options);
  await enterGroup(options, group);
  const opened = await openModel(options);
  const { engine, embed, description } = await ready(opened, options);
  const follower = followerOf(engine, opened, options);
  // A training that has begun may have better weights already.
  await follower?.look();
  const id = options.name ?? opened.name;
  const adapters = opened.adapters?.names ?? [];
  const twice = adapters.find((name) => name === id);
  if (twice !== undefined) throw sameName(twice);
  let isDisposed = false;
  const app = openAIApp({
    models: [
      { id, engine, embed },
      ...adapters.map((adapter) => ({ id: adapter, engine, embed: null, adapter })),
    ],
    apiKeys,
    maxWaiting,
    requestTimeoutMs,
    page: true,
    onError: (error) => {
      // What was cut off ends with an error, which is no news then.
      if (!isDisposed) console.error(error);
      // The process that started this one starts the whole group again.
      if (engine?.isBroken === true) process.exit(1);
    },
  });
  const server = await listen(app, { host, port }).catch((cause: unknown) => {
    throw cannotListen(host, port, cause);
  });
  const following = follower?.follow();
  return {
    server,
    summary: `Serving ${id} (${opened.model.architecture}) at ${server.url}/v1: ${description}`,
    get open() {
      return engine === null ? 0 : engine.statistics.running + engine.statistics.waiting;
    },
    dispose: async () => {
      isDisposed = true;
      follower?.stop();
      await following;
      // Requests whose connections were cut leave the engine by themselves.
      await engine?.drain();
      await engine?.dispose();
    },
  };
}

/**
 * Computes what the first rank of the group decides, until that one ends. It is what the other ranks do. Throws what
 * startServing throws.
 */
export async function followServing(options: ServeOptions, group: GroupPlace): Promise<void> {
  await enterGroup(options, group);
  const engine = engineOf(await openModel(options), options);
  await engine.follow();
  await engine.dispose();
}

function followerOf(
  engine: Engine | null,
  { model, folder, adapters }: OpenedModel,
  { reload, tensorParallelSize }: ServeOptions,
): CheckpointFollower | null {
  if (reload === undefined) return null;
  if (tensorParallelSize > 1) throw reloadedParts(reload.place);
  if (adapters !== null) throw reloadedBehindAdapters(reload.place);
  if (engine !== null) {
    return new CheckpointFollower(engine, model, reload, (line) => console.log(line));
  }
  throw new ConfigError(
    {
      asked: `--reload ${reload.place}`,
      found: `a ${model.architecture}, which makes embeddings`,
      todo: 'Leave --reload out, or serve a language model',
    },
    { place: folder.place, reload: reload.place },
  );
}

function reloadedParts(place: string): ConfigError {
  return new ConfigError(
    {
      asked: `--reload ${place} with --tensor-parallel-size`,
      found: 'ranks that have parts of the model, which would have to take new weights together',
      todo: 'Leave one of them out',
    },
    { reload: place },
  );
}

function reloadedBehindAdapters(place: string): ConfigError {
  return new ConfigError(
    {
      asked: `--reload ${place} with --lora-modules`,
      found: 'adapters that were trained beside other weights of the model',
      todo: 'Leave one of them out',
    },
    { reload: place },
  );
}

async function ready(opened: OpenedModel, options: ServeOptions): Promise<ReadyModel> {
  const { model, tokenizer, folder } = opened;
  if (model instanceof CausalDecoder || model instanceof GPT2LMHeadModel) {
    return readyEngine(opened, options);
  }
  if (model instanceof BertModel || model instanceof RobertaModel) {
    if (opened.adapters !== null) throw noAdapters(model.architecture);
    const embedder = new EncoderEmbedder(model, tokenizer, await readPooling(folder));
    const { vectors } = await embedder.embed([[0]]);
    const width = vectors[0]?.length ?? 0;
    return {
      engine: null,
      embed: embedder.embed,
      description: `embeddings of ${width} numbers, texts of up to ${embedder.maxTokens} tokens`,
    };
  }
  throw new ConfigError(
    {
      asked: `to serve ${folder.place}`,
      found: `a ${model.architecture}, which makes neither texts nor embeddings`,
      todo: 'Give a language model, or an encoder without a head',
    },
    { place: folder.place, architecture: model.architecture },
  );
}

/** An engine that has made one token. Its memory is there, and its first programs are compiled. */
async function readyEngine(opened: OpenedModel, options: ServeOptions): Promise<ReadyModel> {
  const { blockSize } = options;
  const engine = engineOf(opened, options);
  const { blocks } = engine.statistics;
  try {
    await complete(engine.generate({ prompt: [0], maxNewTokens: 1, temperature: 0 }));
  } catch (error) {
    // What is too large for an array is a RangeError.
    if (!(error instanceof OutOfMemoryError) && !(error instanceof RangeError)) throw error;
    throw noRoom(blocks, blockSize, error);
  }
  const size = formatBytes(engine.statistics.cacheBytes);
  const context = engine.facts.contextLength;
  return {
    engine,
    embed: null,
    description: `a context of ${context} tokens, ${blocks} blocks of ${blockSize} tokens (${size})`,
  };
}

function engineOf({ generating, tokenizer, adapters }: OpenedModel, options: ServeOptions): Engine {
  const { cacheTokens, blockSize, maxSequences, maxChunkTokens, speculativeTokens } = options;
  const { kvCacheDtype, preemption, swapSpace } = options;
  return new Engine(generating, tokenizer, {
    kvCacheDtype,
    preemption,
    ...(swapSpace === undefined ? {} : { swapSpace }),
    ...(adapters === null ? {} : { adapters }),
    blockSize,
    maxSequences,
    maxChunkTokens,
    maxStepRatio: MAX_STEP_RATIO,
    ...(cacheTokens === undefined ? {} : { cacheTokens }),
    ...(speculativeTokens === undefined
      ? {}
      : { speculation: { method: 'ngram', tokens: speculativeTokens } }),
  });
}

function noRoom(blocks: number, blockSize: number, cause: Error): ConfigError {
  return new ConfigError(
    {
      asked: `a cache of ${blocks} blocks of ${blockSize} tokens`,
      found: `they do not fit the memory beside the model: ${cause.message}`,
      todo: `Give --cache-tokens less than ${blocks * blockSize}`,
    },
    { blocks, blockSize },
    { cause },
  );
}

function noAdapters(architecture: string): ConfigError {
  return new ConfigError(
    {
      asked: `to serve a ${architecture} with --lora-modules`,
      found: 'a model that makes embeddings, for which requests name no adapter',
      todo: 'Merge the adapter into the model with mergeLora',
    },
    { architecture },
  );
}

function sameName(name: string): ConfigError {
  return new ConfigError(
    {
      asked: `to serve a model '${name}' with an adapter of this name`,
      found: 'two that requests would name alike',
      todo: 'Give another name with --served-model-name or --lora-modules',
    },
    { name },
  );
}
