import { ref, watchEffect } from 'vue'

export const themes = ['auto', 'dark', 'light'] as const
export type Theme = (typeof themes)[number]

const place = 'theme'

function stored(): Theme {
  try {
    const value = localStorage.getItem(place)
    return themes.find((t) => t === value) ?? 'auto'
  } catch {
    return 'auto' // no storage in this browser
  }
}

// useTheme keeps the choice of light and dark; auto is the system's.
export function useTheme() {
  const theme = ref<Theme>(stored())
  watchEffect(() => {
    document.documentElement.dataset.theme = theme.value
    try {
      localStorage.setItem(place, theme.value)
    } catch {
      // it lasts as long as the page then
    }
  })
  return { theme, next: () => (theme.value = themes[(themes.indexOf(theme.value) + 1) % themes.length]!) }
}
