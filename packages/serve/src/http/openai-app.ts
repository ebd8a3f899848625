import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { type Context, Hono } from 'hono';
import type { z } from 'zod';
import { ApiError, apiErrorOf, closingError } from './api-error.ts';
import { ApiKeys } from './api-keys.ts';
import { type AppContext, type Call, seconds, type ServerLimits } from './app-context.ts';
import { chatCompletions } from './chat.ts';
import { completions } from './completions.ts';
import { embeddings } from './embeddings.ts';
import { metricsText } from './metrics.ts';
import { addPage } from './page/page-routes.ts';
import { readBody } from './read-body.ts';
import {
  chatSchema,
  completionSchema,
  embeddingSchema,
  responseSchema,
} from './request-schemas.ts';
import { responses } from './responses/responses.ts';
import type { ServedModel } from './served-model.ts';

/** Options of `openAIApp`. */
export interface OpenAIAppOptions extends Partial<ServerLimits> {
  readonly models: readonly ServedModel[];
  /** The keys of which a request must have one. Default: none is asked for. */
  readonly apiKeys?: readonly string[];
  /** Whether there is a page with a chat at `/`. Default: false. */
  readonly page?: boolean;
  /** Is told of errors that are not the fault of a request. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
}

const appRules: OptionRules<OpenAIAppOptions> = {
  models: option.required(option.listOf(option.object<ServedModel>('a model'))),
  apiKeys: option.listOf(option.nonEmptyText),
  page: option.flag,
  onError: option.callback(),
  maxBodyBytes: option.integer(1),
  maxWaiting: option.integer(1),
  maxSamples: option.integer(1),
  requestTimeoutMs: option.positive,
  stalledMs: option.positive,
};

const defaults: ServerLimits = {
  maxBodyBytes: 2 ** 20,
  maxWaiting: 128,
  maxSamples: 16,
  requestTimeoutMs: 600_000,
  stalledMs: 60_000,
};

/** An application that answers requests of OpenAI's interface. */
export interface OpenAIApp {
  /** Whether requests need one of its keys. */
  readonly needsKey: boolean;
  readonly fetch: (request: Request) => Response | Promise<Response>;
  /** Refuses new requests from now on. */
  close(): void;
}

/**
 * Makes an application of OpenAI's interface for these models: completions, chat completions, responses, embeddings and
 * models, with `/health`, `/metrics` and `/state`. It reads nothing from a request that is not in a schema, and answers a field
 * that it does not know with 400.
 */
export function openAIApp(options: OpenAIAppOptions): OpenAIApp {
  checkOptions('openAIApp', options, appRules);
  requireAdapters(options.models);
  const { models, apiKeys = [], page = false, onError = report, ...limits } = options;
  const context: AppContext = {
    models,
    limits: { ...defaults, ...limits },
    openEmbeddings: { count: 0 },
    onError,
  };
  const keys = new ApiKeys(apiKeys);
  const counts = new Map<number, number>();
  let isClosing = false;
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    counts.set(c.res.status, (counts.get(c.res.status) ?? 0) + 1);
  });
  app.onError((error) => {
    const told = apiErrorOf(error);
    if (told.status >= 500) onError(error);
    return told.response();
  });
  app.notFound((c) =>
    new ApiError(404, `There is nothing at ${c.req.method} ${c.req.path}.`, {
      type: 'not_found_error',
    }).response(),
  );
  app.get('/health', () =>
    Response.json({ status: isClosing ? 'closing' : 'ok' }, { status: isClosing ? 503 : 200 }),
  );
  const post = <Schema extends z.ZodType>(
    path: string,
    schema: Schema,
    answer: (context: AppContext, call: Call<z.infer<Schema>>) => Promise<Response>,
  ): void => {
    app.post(path, async (c) => {
      requireSameOrigin(c.req.header('sec-fetch-site'));
      const tenant = keys.tenantOf(c.req.header('authorization'));
      if (isClosing) throw closingError();
      const body = await readBody(c.req.raw, context.limits.maxBodyBytes, schema);
      const abort = new AbortController();
      c.req.raw.signal.addEventListener('abort', () => abort.abort());
      try {
        return await answer(context, { body, tenant, abort });
      } catch (error) {
        // It gets no answer, and its end is no error of the server.
        if (c.req.raw.signal.aborted) throw new ApiError(499, 'The client has gone.');
        throw error;
      }
    });
  };
  post('/v1/completions', completionSchema, completions);
  post('/v1/chat/completions', chatSchema, chatCompletions);
  post('/v1/responses', responseSchema, responses);
  post('/v1/embeddings', embeddingSchema, embeddings);
  const created = seconds();
  const modelOf = ({ id }: ServedModel): object => ({
    id,
    object: 'model',
    created,
    owned_by: 'shardwise',
  });
  const withKey = (answer: (c: Context) => Response) => (c: Context) => {
    keys.tenantOf(c.req.header('authorization'));
    return answer(c);
  };
  app.get(
    '/v1/models',
    withKey(() => Response.json({ object: 'list', data: models.map(modelOf) })),
  );
  app.get(
    '/v1/models/:id{.+}',
    withKey((c) => {
      const found = models.find(({ id }) => id === c.req.param('id'));
      if (found !== undefined) return Response.json(modelOf(found));
      throw new ApiError(404, `There is no model '${c.req.param('id')}'.`, {
        type: 'not_found_error',
        code: 'model_not_found',
      });
    }),
  );
  app.get(
    '/state',
    withKey(() => Response.json({ models: models.flatMap(stateOf) })),
  );
  if (page) addPage(app);
  app.get(
    '/metrics',
    withKey(
      () =>
        new Response(metricsText(models, counts), {
          headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
        }),
    ),
  );
  return {
    needsKey: apiKeys.length > 0,
    fetch: (request) => app.fetch(request),
    close: () => {
      isClosing = true;
    },
  };
}

/** Browsers say so by themselves. Otherwise each page that a user opens could use a server without keys. */
function requireSameOrigin(site: string | undefined): void {
  if (site !== 'cross-site' && site !== 'same-site') return;
  throw new ApiError(403, 'Pages of other addresses may not ask this server.');
}

function report(error: unknown): void {
  console.error(error);
}

/** What the page shows of a model: numbers, and no texts, as they may be those of others. */
function stateOf({ id, engine, adapter }: ServedModel): object[] {
  // The models of adapters have the engine of another one.
  if (engine === null || adapter !== undefined) return [];
  return [{ id, statistics: engine.statistics, cache: engine.cacheState }];
}

/** Throws ConfigError for a model with an adapter that its engine does not have. */
function requireAdapters(models: readonly ServedModel[]): void {
  for (const { id, engine, adapter } of models) {
    if (adapter === undefined || engine?.adapters.includes(adapter) === true) continue;
    throw new ConfigError({
      asked: `a model '${id}' with the adapter '${adapter}'`,
      found: `an engine with the adapters ${engine?.adapters.join(', ') || 'of no name'}`,
      todo: 'Give the engine the adapter: what stackAdapters returned',
    });
  }
}
