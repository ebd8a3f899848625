import { readFile, stat } from 'node:fs/promises';
import { extname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';
import { namedCluster } from '../cluster/catalogue.ts';
import { type ClusterDescription, firstFault, readCluster } from '../cluster/cluster.ts';
import type { PlannedStep } from '../cost/compare.ts';
import { stepTerms } from '../cost/step-time.ts';
import { describeConfig } from '../model/describe-config.ts';
import { namedModel } from '../model/named-models.ts';
import type { ModelDescription } from '../model/model-description.ts';

/** Descriptions are small. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;
/** Traces have an event for each message of a run. */
const MAX_TRACE_BYTES = 256 * 1024 * 1024;

/** Files with these names are scripts. */
const SCRIPTS = new Set(['.ts', '.mts', '.js', '.mjs']);

/**
 * Describes a model: a name such as `gpt:175b`, a folder with a config.json of Hugging Face, such a file, or a script that
 * describes any model, which is run. Throws ConfigError.
 *
 *     // model.ts
 *     export default describeModule(new Net(), [zeros([32, 8]), zeros([32, 4])], { loss });
 */
export async function openModel(place: string, sequence?: number): Promise<ModelDescription> {
  const found = await kindOf(place);
  if (found === 'nothing' && !SCRIPTS.has(extname(place)) && !isJson(place)) {
    return namedModel(place);
  }
  if (found !== 'folder' && SCRIPTS.has(extname(place))) return describedBy(place);
  const path = found === 'folder' ? join(place, 'config.json') : place;
  return describeConfig(await readJson(path, 'a model'), sequence);
}

/** The description that a script exports. Throws ConfigError, of which what the script throws is the cause. */
async function describedBy(path: string): Promise<ModelDescription> {
  if ((await kindOf(path)) !== 'file') throw faultOfScript(path, 'no such file');
  const { href } = pathToFileURL(resolve(path));
  let script: { readonly default?: unknown };
  try {
    script = await import(href);
  } catch (cause) {
    throw failureOfScript(path, href, cause);
  }
  const { default: given } = script;
  if (isDescription(given)) return given;
  const found =
    given === undefined ? 'no default export' : `a default export that is ${typeof given}`;
  throw faultOfScript(path, found);
}

function isDescription(given: unknown): given is ModelDescription {
  if (typeof given !== 'object' || given === null || !('kind' in given)) return false;
  return given.kind === 'transformer' || given.kind === 'modules';
}

function faultOfScript(path: string, found: string): ConfigError {
  return new ConfigError(
    {
      asked: `a model from ${path}`,
      found,
      todo: 'Let the script `export default describeModule(model, inputs, { loss })`, of @shardwise/planner',
    },
    { path },
  );
}

/** The script was run to trace a pass of its model, and has failed. */
function failureOfScript(path: string, href: string, cause: unknown): ConfigError {
  const what = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
  const line = lineOf(cause, href);
  return new ConfigError(
    {
      asked: `a model from ${path}, which planning runs to trace a training pass of the model`,
      found: `the script failed${line === null ? '' : ` in line ${line}`} with ${what}`,
      todo: `Correct it; \`node ${path}\` alone shows where`,
    },
    { path, line },
    { cause },
  );
}

/** The first line of the script in the stack of an error. Null if the stack does not name it. */
function lineOf(error: unknown, href: string): number | null {
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  // Errors of syntax begin with the path, others with calls by their URL.
  const place = [href, fileURLToPath(href)].find((each) => stack.includes(`${each}:`));
  if (place === undefined) return null;
  const line = Number.parseInt(stack.slice(stack.indexOf(`${place}:`) + place.length + 1), 10);
  return Number.isInteger(line) ? line : null;
}

/** Describes a cluster: a name such as `128xh100`, or a JSON file, such as that of `shardwise measure`. Throws ConfigError. */
export async function openCluster(place: string): Promise<ClusterDescription> {
  if ((await kindOf(place)) !== 'file' && !isJson(place)) return namedCluster(place);
  return readCluster(await readJson(place, 'a cluster'));
}

/** Reads the events of a trace, such as the `trace.json` of a run. Throws ConfigError for what is no JSON file. */
export function openTrace(path: string): Promise<unknown> {
  return readJson(path, 'a trace', MAX_TRACE_BYTES);
}

const seconds = z.number().min(0).max(1e9);
const bytes = z.number().min(0).max(1e18);
const axis = z.number().int().min(1).max(1_000_000);

const plannedStep: z.ZodType<PlannedStep> = z.object({
  layout: z.object({
    dataParallel: axis,
    tensorParallel: axis,
    pipelineParallel: axis,
    contextParallel: axis,
  }),
  terms: z.record(z.enum(stepTerms), seconds),
  stepSeconds: seconds,
  memory: z.object({ totalBytes: bytes, kinds: z.object({ overhead: bytes }) }),
});

/** Of a plan, the layouts from the best one on. */
const planSchema = z.object({ ranked: z.tuple([plannedStep], z.unknown()) });

/** Reads the best layout of a plan that `shardwise plan --json` has printed into a file. Throws ConfigError. */
export async function openPlan(path: string): Promise<PlannedStep> {
  const parsed = planSchema.safeParse(await readJson(path, 'a plan'));
  if (parsed.success) return parsed.data.ranked[0];
  throw new ConfigError(
    {
      asked: `the plan in ${path}`,
      found: firstFault(parsed.error).found,
      todo: 'Write it with `shardwise plan … --json > plan.json`, for a model that fits',
    },
    { path },
  );
}

/** Whether a text is the name of a file, although there may be none: no model and no cluster is called so. */
function isJson(place: string): boolean {
  return extname(place) === '.json';
}

async function kindOf(place: string): Promise<'file' | 'folder' | 'nothing'> {
  const found = await stat(place).catch(() => undefined);
  if (found === undefined) return 'nothing';
  return found.isDirectory() ? 'folder' : 'file';
}

async function readJson(
  path: string,
  what: string,
  maxBytes: number = MAX_FILE_BYTES,
): Promise<unknown> {
  const fail = (found: string): ConfigError =>
    new ConfigError(
      { asked: `${what} from ${path}`, found, todo: 'Name a JSON file that describes it' },
      { path },
    );
  const found = await stat(path).catch(() => undefined);
  if (found !== undefined && found.size > maxBytes) throw fail(`a file of ${found.size} bytes`);
  const bytes = await readFile(path).catch(() => undefined);
  if (bytes === undefined) throw fail('no file that can be read');
  try {
    const json: unknown = JSON.parse(bytes.toString());
    return json;
  } catch {
    throw fail('text that is no JSON');
  }
}
