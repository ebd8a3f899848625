/**
 * Why tests cannot run on a device here, for their names; undefined where they can. With SHARDWISE_REQUIRE_DEVICES=1 they run, and fail,
 * all the same. `create` makes the device's backend.
 */
export async function reasonWithoutDevice(
  create: () => Promise<{ close(): void }>,
): Promise<string | undefined> {
  if (process.env['SHARDWISE_REQUIRE_DEVICES'] === '1') return undefined;
  try {
    const device = await create();
    device.close();
    return undefined;
  } catch (error) {
    return String(error);
  }
}
