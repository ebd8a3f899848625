import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

const missing = 'no Chromium is installed (SHARDWISE_BROWSER)';

/** The path of an installed Chromium: SHARDWISE_BROWSER, or one of the usual names. Throws if there is none. */
export function requireBrowser(): string {
  const path = findBrowser();
  if (path === undefined) throw new Error(missing);
  return path;
}

function findBrowser(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const candidates = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  const named = process.env['SHARDWISE_BROWSER'];
  return (named === undefined ? candidates : [named]).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * Why pages cannot be tested here, for the names of tests; undefined if they can. With
 * SHARDWISE_REQUIRE_DEVICES=1 it is always undefined, so the tests run and fail.
 */
export function reasonWithoutBrowser(): string | undefined {
  const isRequired = process.env['SHARDWISE_REQUIRE_DEVICES'] === '1';
  if (isRequired || findBrowser() !== undefined) return undefined;
  return missing;
}

/** Options of `openPage`. */
export interface OpenPageOptions {
  /** Makes WebGPU compute on the CPU, by SwiftShader. Default: the page has no WebGPU. */
  readonly withWebGpu?: boolean;
}

const quiet = [
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-quic',
  '--disable-sync',
  // Pages of several browsers on this machine reach each other by WebRTC, also without a network.
  '--allow-loopback-in-peer-connection',
  '--disable-features=WebRtcHideLocalIpsWithMdns',
];
const webGpu = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];

/** Opens a page without a window, in a new browser profile, until it is disposed of. */
export function openPage(
  url: string,
  { withWebGpu = false }: OpenPageOptions = {},
): AsyncDisposable {
  const browser = requireBrowser();
  const profile = mkdtempSync(join(tmpdir(), 'shardwise-browser-'));
  // Chromium's sandbox does not work for root.
  const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const graphics = withWebGpu ? webGpu : ['--disable-gpu'];
  const flags = ['--headless=new', ...graphics, ...quiet, `--user-data-dir=${profile}`];
  // The browser gets its own process group, because it starts processes too.
  const child = spawn(browser, [...flags, ...sandbox, url], { stdio: 'ignore', detached: true });
  const ended = once(child, 'exit');
  return {
    [Symbol.asyncDispose]: async () => {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
      await ended;
      rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    },
  };
}
