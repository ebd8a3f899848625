import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { ConfigError } from '../spec/errors.ts';

/** Options of `hubFolder`. */
export interface HubOptions {
  /** A branch, a tag or a commit. Default: `main`. */
  readonly revision?: string;
  /** The folder of the cache. Default: `HF_HUB_CACHE` of the environment, otherwise `hub` in `HF_HOME`, as in Python. */
  readonly cacheDir?: string;
  /** Null sends none. Default: `HF_TOKEN` of the environment, otherwise the file that `hf auth login` has written. */
  readonly token?: string | null;
  /** The URL of the hub. Default: `HF_ENDPOINT` of the environment, otherwise `https://huggingface.co`. */
  readonly endpoint?: string;
  /** Whether only the cache is read. Default: whether `HF_HUB_OFFLINE` of the environment is 1. */
  readonly offline?: boolean;
  /** How often a request is sent again after a failure of the network or the server. Default: 3. */
  readonly retries?: number;
}

const hubRules: OptionRules<HubOptions> = {
  revision: option.nonEmptyText,
  cacheDir: option.nonEmptyText,
  token: {
    fits: (value): value is string | null => value === null || typeof value === 'string',
    expected: 'a text, or null',
  },
  endpoint: option.nonEmptyText,
  offline: option.flag,
  retries: option.count,
};

/** A repository of the hub, and where its files are kept. */
export interface HubRepository {
  readonly type: 'model' | 'dataset';
  /** `name` or `organization/name`. */
  readonly name: string;
  readonly revision: string;
  /** The folder of the repository in the cache. */
  readonly folder: string;
  readonly locks: string;
  readonly token: string | undefined;
  readonly endpoint: string;
  readonly isOffline: boolean;
  readonly retries: number;
}

/** The names that the hub allows: no part begins or ends with a point or a hyphen, or has two of them. */
const REPOSITORY = /^(?!.*(?:--|\.\.))(?:[\w][\w.-]{0,95}\/)?[\w][\w.-]{0,95}$/;

/** Whether a text may be the name of a model of the hub. */
export function isHubName(text: string): boolean {
  return REPOSITORY.test(text) && !/[.-](?:\/|$)/.test(text);
}

/** Reads the name of a repository, options and the environment. Throws ConfigError. */
export function hubRepository(repository: string, options: HubOptions): HubRepository {
  checkOptions('hubFolder', options, hubRules);
  const isDataset = repository.startsWith('datasets/');
  const name = isDataset ? repository.slice('datasets/'.length) : repository;
  const { revision = 'main', endpoint = process.env['HF_ENDPOINT'] ?? 'https://huggingface.co' } =
    options;
  if (!isHubName(name)) {
    throw wrong(repository, 'no name of a repository', 'Give a name such as organization/model');
  }
  if (!/^[\w][\w./-]{0,255}$/.test(revision) || /\.\.|\/\/|\/$/.test(revision)) {
    throw wrong(repository, `the revision '${revision}'`, 'Give a branch, a tag or a commit');
  }
  if (!URL.canParse(endpoint) || !/^https?:$/.test(new URL(endpoint).protocol)) {
    throw wrong(
      repository,
      'an endpoint that is no URL',
      'Give a URL such as https://huggingface.co',
    );
  }
  const { env } = process;
  const home =
    env['HF_HOME'] ?? join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'huggingface');
  const cache =
    options.cacheDir ?? env['HF_HUB_CACHE'] ?? env['HUGGINGFACE_HUB_CACHE'] ?? join(home, 'hub');
  const type = isDataset ? 'dataset' : 'model';
  const folder = [`${type}s`, ...name.split('/')].join('--');
  return {
    type,
    name,
    revision,
    folder: join(cache, folder),
    locks: join(cache, '.locks', folder),
    token: options.token === undefined ? knownToken(home) : (options.token ?? undefined),
    endpoint: endpoint.replace(/\/+$/, ''),
    isOffline: options.offline ?? /^(1|true|yes|on)$/i.test(env['HF_HUB_OFFLINE'] ?? ''),
    retries: options.retries ?? 3,
  };
}

/** The token of the environment, or of the file in which Python keeps it. */
function knownToken(home: string): string | undefined {
  const { HF_TOKEN: token, HF_TOKEN_PATH: path = join(home, 'token') } = process.env;
  if (token !== undefined && token.trim() !== '') return token.trim();
  try {
    const text = readFileSync(path, 'utf8').trim();
    return text === '' ? undefined : text;
  } catch {
    return undefined;
  }
}

function wrong(repository: string, found: string, todo: string): ConfigError {
  return new ConfigError(
    { asked: `to open ${repository} of the hub`, found, todo },
    { repository },
  );
}
