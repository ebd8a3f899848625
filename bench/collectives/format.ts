export const units = { KiB: 1 << 10, MiB: 1 << 20 } as const;

export function formatBytes(bytes: number): string {
  return bytes >= units.MiB ? `${bytes / units.MiB} MiB` : `${bytes / units.KiB} KiB`;
}

export function formatSeconds(seconds: number): string {
  if (seconds >= 1e-3) return `${(seconds * 1e3).toFixed(2)} ms`;
  return `${(seconds * 1e6).toFixed(seconds >= 1e-4 ? 0 : 2)} us`;
}
