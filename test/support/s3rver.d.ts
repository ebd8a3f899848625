/** The part of the package that tests use. It has no types of its own. */
declare module '@20minutes/s3rver' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  export interface Context {
    readonly method: string;
    readonly path: string;
    readonly query: Readonly<Record<string, string>>;
    readonly req: IncomingMessage;
    readonly res: ServerResponse;
    readonly response: { readonly length: number | undefined };
    status: number;
    body: unknown;
    get(name: string): string;
    set(name: string, value: string): void;
  }

  export type Middleware = (context: Context, next: () => Promise<void>) => Promise<void>;

  export default class S3rver {
    readonly middleware: Middleware[];
    readonly store: {
      listObjects(
        bucket: string,
        options: {
          readonly maxKeys: number;
          readonly prefix?: string;
          readonly startAfter?: string;
        },
      ): Promise<{
        readonly isTruncated: boolean;
        readonly objects: readonly {
          readonly key: string;
          readonly size: number;
          readonly lastModifiedDate: Date;
        }[];
      }>;
      existsObject(bucket: string, key: string): Promise<boolean>;
      getObject(
        bucket: string,
        key: string,
      ): Promise<{
        readonly metadata: Record<string, string>;
        readonly content: { destroy(): void };
      }>;
    };
    constructor(options: {
      readonly address: string;
      readonly port: number;
      readonly silent: boolean;
      readonly directory: string;
      readonly vhostBuckets: boolean;
      readonly configureBuckets: readonly { readonly name: string }[];
    });
    run(): Promise<{ readonly port: number }>;
    close(): Promise<void>;
  }
}
