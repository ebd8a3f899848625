/** `shardwise run`, parsed. */
export interface RunCommandOptions {
  readonly script: string;
  /** The script's own arguments. */
  readonly args: readonly string[];
  readonly worldSize: number;
  readonly runDirectory: string | undefined;
  readonly resumeDirectory: string | undefined;
  readonly report: boolean;
  readonly plain: boolean;
}
