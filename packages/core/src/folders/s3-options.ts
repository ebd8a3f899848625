import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { ConfigError } from '../spec/errors.ts';

/** Credentials of AWS, as its clients give them. */
export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

/** Options of `s3Folder`. */
export interface S3Options {
  /** The URL of the store. Default: `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` of the environment, otherwise AWS. */
  readonly endpoint?: string;
  /** Default: `AWS_REGION` or `AWS_DEFAULT_REGION` of the environment, otherwise `us-east-1`. */
  readonly region?: string;
  /**
   * Credentials, or what returns them, such as `fromNodeProviderChain()` of `@aws-sdk/credential-providers`. Null reads a
   * bucket that is open to all. Default: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` of the
   * environment.
   */
  readonly credentials?: S3Credentials | (() => Promise<S3Credentials>) | null;
  /** Whether the bucket is a part of the path, and not of the host. Default: true with an endpoint. */
  readonly pathStyle?: boolean;
  /** How often a request is sent again after a failure of the network or the server. Default: 3. */
  readonly retries?: number;
  /** The bytes of a part of a file that is written in parts, of which it has at most 10,000. Default: 16 MiB. */
  readonly partBytes?: number;
}

const s3Rules: OptionRules<S3Options> = {
  endpoint: option.nonEmptyText,
  region: option.nonEmptyText,
  credentials: {
    fits: (value): value is NonNullable<S3Options['credentials']> | null =>
      value === null || typeof value === 'object' || typeof value === 'function',
    expected: 'credentials, a function that returns them, or null',
  },
  pathStyle: option.flag,
  retries: option.count,
  partBytes: option.integer(5 * 1024 * 1024),
};

/** A bucket, and how requests to it are signed. */
export interface S3Bucket {
  readonly bucket: string;
  /** What the keys of the folder begin with: a path that ends in `/`, or nothing. */
  readonly prefix: string;
  /** The URL to which keys are appended. It ends in `/`. */
  readonly base: string;
  readonly region: string;
  readonly credentials: (() => Promise<S3Credentials>) | null;
  readonly retries: number;
  readonly partBytes: number;
}

const DEFAULT_PART_BYTES = 16 * 1024 * 1024;

/** Reads an address such as `s3://bucket/models/small`, and options. Throws ConfigError. */
export function s3Bucket(address: string, options: S3Options): S3Bucket {
  checkOptions('s3Folder', options, s3Rules);
  const [, bucket = '', path = ''] =
    /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/s.exec(address) ?? [];
  if (bucket === '') {
    throw wrong(address, 'no name of a bucket', 'Give an address such as s3://bucket/models/small');
  }
  const { env } = process;
  const region = options.region ?? env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'] ?? 'us-east-1';
  const endpoint = options.endpoint ?? env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'];
  const host = new URL(endpointUrl(address, endpoint ?? `https://s3.${region}.amazonaws.com`));
  // The certificates of AWS are for one label before its domain.
  const isPath = options.pathStyle ?? (endpoint !== undefined || bucket.includes('.'));
  if (isPath) host.pathname = `${host.pathname.replace(/\/$/, '')}/${bucket}/`;
  else host.host = `${bucket}.${host.host}`;
  const prefix = path.replace(/\/+$/, '');
  return {
    bucket,
    prefix: prefix === '' ? '' : `${prefix}/`,
    base: host.href,
    region,
    credentials: credentialsOf(address, options.credentials),
    retries: options.retries ?? 3,
    partBytes: options.partBytes ?? DEFAULT_PART_BYTES,
  };
}

function endpointUrl(address: string, endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isPlain = url !== undefined && /^https?:$/.test(url.protocol) && url.username === '';
  if (isPlain) return endpoint;
  throw wrong(
    address,
    'an endpoint that is no URL of http or https, or has a name in it',
    'Give an endpoint such as https://s3.example.com, and credentials apart from it',
  );
}

function credentialsOf(
  address: string,
  given: S3Options['credentials'],
): (() => Promise<S3Credentials>) | null {
  if (given === null) return null;
  if (typeof given === 'function') return given;
  if (given !== undefined) return async () => given;
  return async () => {
    const {
      AWS_ACCESS_KEY_ID: accessKeyId = '',
      AWS_SECRET_ACCESS_KEY: secretAccessKey = '',
      AWS_SESSION_TOKEN: sessionToken,
    } = process.env;
    if (accessKeyId !== '' && secretAccessKey !== '') {
      return { accessKeyId, secretAccessKey, sessionToken };
    }
    throw wrong(
      address,
      'no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment',
      'Set them, or give credentials to s3Folder; credentials: null reads a bucket that is open to all',
    );
  };
}

function wrong(address: string, found: string, todo: string): ConfigError {
  return new ConfigError({ asked: `to open ${address}`, found, todo }, { address });
}
