import { defineComponent, h, ref, type VNode } from 'vue';

const COMMAND = 'npm create shardwise my-model';
/** How long the button says that it has copied. */
const SAID_MS = 2000;

/** The command that makes a project, with a button that copies it. */
export const InstallCommand = defineComponent({
  name: 'InstallCommand',
  setup() {
    const isCopied = ref(false);
    const copy = async (): Promise<void> => {
      await navigator.clipboard.writeText(COMMAND);
      isCopied.value = true;
      setTimeout(() => (isCopied.value = false), SAID_MS);
    };
    return (): VNode =>
      h('p', { class: 'install-command' }, [
        h('code', COMMAND),
        h(
          'button',
          { type: 'button', 'aria-label': 'Copy the command', onClick: () => void copy() },
          isCopied.value ? 'Copied' : 'Copy',
        ),
      ]);
  },
});
